// The certified provider of npm's oidc-provider on a loopback port, told by its tests over `PUT /told`:
// node certified_provider.mjs PORT REDIRECT_URI LOGOUT_URI
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const packages = createRequire(new URL("../../frontend/package.json", import.meta.url));
const { default: Provider } = await import(pathToFileURL(packages.resolve("oidc-provider")));
const [port, redirectUri, logoutUri] = process.argv.slice(2);
const told = { people: {}, skewS: 0 };

const now = Date.now;
Date.now = () => now() + told.skewS * 1000; // the one clock that the provider asks

const known = { client_secret: "client-secret", redirect_uris: [redirectUri], backchannel_logout_uri: logoutUri };
const provider = new Provider(`http://localhost:${port}`, {
  clients: [
    { ...known, client_id: "launchbay" },
    { ...known, client_id: "with-sessions", backchannel_logout_session_required: true },
    { ...known, client_id: "edwards", id_token_signed_response_alg: "EdDSA" },
    { ...known, client_id: "public", client_secret: undefined, token_endpoint_auth_method: "none" },
    { ...known, client_id: "posting", token_endpoint_auth_method: "client_secret_post" },
  ],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"], groups: ["groups"] },
  enabledJWA: { idTokenSigningAlgValues: ["RS256", "EdDSA"] },
  features: { backchannelLogout: { enabled: true } },
  fetch: (address, { dispatcher, ...options }) => fetch(address, options), // its dispatcher refuses private addresses
  findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, ...told.people[sub] }) }),
  jwks: { keys: [await key("RS256"), await key("Ed25519")] },
});

async function key(alg) {
  const { generateKeyPair, exportJWK } = await import(pathToFileURL(packages.resolve("jose")));
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  return { ...(await exportJWK(privateKey)), use: "sig", kid: alg };
}

const answer = provider.callback();
createServer((request, response) => {
  if (request.method !== "PUT" || request.url !== "/told") return answer(request, response);
  let text = "";
  request.on("data", (part) => (text += part));
  request.on("end", () => {
    Object.assign(told, JSON.parse(text));
    response.writeHead(204).end();
  });
}).listen(Number(port), "localhost", () => console.log("listening"));
