// Makes and uses passkeys: a button with data-passkey sends the browser's response with its form.
// The options come from the server as JSON, with binary values in base64url, and the response goes back in that form.

const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const text = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const withIds = (list) => (list ?? []).map((each) => ({ ...each, id: bytes(each.id) }));

async function create(options) {
  const publicKey = {
    ...options,
    challenge: bytes(options.challenge),
    user: { ...options.user, id: bytes(options.user.id) },
    excludeCredentials: withIds(options.excludeCredentials),
  };
  const made = await navigator.credentials.create({ publicKey });
  return {
    ...common(made),
    response: {
      clientDataJSON: text(made.response.clientDataJSON),
      attestationObject: text(made.response.attestationObject),
    },
  };
}

async function use(options) {
  const publicKey = {
    ...options,
    challenge: bytes(options.challenge),
    allowCredentials: withIds(options.allowCredentials),
  };
  const used = await navigator.credentials.get({ publicKey });
  return {
    ...common(used),
    response: {
      clientDataJSON: text(used.response.clientDataJSON),
      authenticatorData: text(used.response.authenticatorData),
      signature: text(used.response.signature),
    },
  };
}

const common = (credential) => ({ id: credential.id, rawId: text(credential.rawId), type: credential.type });

for (const button of document.querySelectorAll("button[data-passkey]")) {
  const form = button.form;
  const problem = form.querySelector("[data-passkey-problem]");
  if (!window.PublicKeyCredential) {
    problem.textContent = "This browser can't use passkeys here. It needs https, or the name localhost.";
    button.disabled = true;
    continue;
  }
  button.addEventListener("click", async () => {
    problem.textContent = "";
    try {
      const options = JSON.parse(button.dataset.options);
      const response = await (button.dataset.passkey === "create" ? create(options) : use(options));
      form.elements.namedItem("response").value = JSON.stringify(response);
      form.requestSubmit();
    } catch (error) {
      // Browsers don't tell why, lest a page learns which passkeys somebody has.
      const words = error.name === "NotAllowedError" ? "It doesn't belong to this account, or nobody confirmed it in time." : error.message;
      problem.textContent = `The passkey was not used. ${words}`;
    }
  });
}
