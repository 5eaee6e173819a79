// What somebody typed isn't lost when the session has ended meanwhile, or the server didn't answer the form.
//
// Leaving a page stores what was typed into its forms, for this tab alone. A page without a person, such as that of
// signing in, keeps it; the next page of the same person that has the form fills it in. Any other page forgets it.
const KEY = "launchbay.draft";
const PREFIX = "launchbay.";
const KEPT_MS = 8 * 3600 * 1000;
// Names of fields, or words in free texts such as JSON, whose values are never stored.
const SECRET = /pass(word|phrase|wd)|secret|token|credential|(private|api|access|signing)[-_. ]?key|authorization/i;
const person = document.body.dataset.user ?? "";
const touched = new Map(); // forms by where they are sent

function* fields(form) {
  const places = new Map();
  for (const field of form.elements) {
    if (!field.name || field.disabled || field.name === "formToken" || !/^(INPUT|SELECT|TEXTAREA)$/.test(field.nodeName)) continue;
    const isState = field.type === "hidden" && field.name === "seen"; // what the form was made from
    if (!isState && /^(hidden|password|file|submit|button|reset|image)$/.test(field.type)) continue;
    const isBox = /^(checkbox|radio)$/.test(field.type);
    const name = JSON.stringify([field.name, isBox ? field.value : (places.get(field.name) ?? 0)]);
    if (!isBox) places.set(field.name, (places.get(field.name) ?? 0) + 1);
    yield [name, field, isBox];
  }
}

function isKept(field) {
  if (field.closest("[data-guard], [data-sensitive]")) return false; // the editor has its own way
  return !SECRET.test(field.name) && (field.name === "seen" || !SECRET.test(field.value));
}

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  } catch {
    return null;
  }
}

function write(draft) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(draft));
  } catch {
    sessionStorage.removeItem(KEY); // too much for the browser
  }
}

function forget() {
  for (const key of Object.keys(sessionStorage)) if (key.startsWith(PREFIX)) sessionStorage.removeItem(key);
}

// Several forms of a page may be sent to one address.
const formsTo = (path) => [...document.querySelectorAll("main form[method=post]")].filter((each) => new URL(each.action, location.href).pathname === path);
function keyOf(form) {
  const path = new URL(form.action, location.href).pathname;
  return JSON.stringify([path, formsTo(path).indexOf(form)]);
}

function touch(event) {
  const form = event.target.closest?.("form");
  if (form && form.method === "post" && form.closest("main")) touched.set(keyOf(form), form);
}

// Puts values back; returns those for which there is no field, which may come with the answer to the others.
function fill(form, values) {
  const left = { ...values };
  for (const [name, field, isBox] of fields(form)) {
    if (!(name in values) || !isKept(field)) continue;
    if (isBox) field.checked = values[name];
    else field.value = values[name];
    delete left[name];
  }
  return left;
}

function bringBack(forms) {
  let found = null;
  for (const [key, values] of Object.entries(forms)) {
    const [path, place] = JSON.parse(key);
    const form = formsTo(path)[place];
    if (!form) continue;
    found ??= form;
    const left = fill(form, values);
    touched.set(key, form);
    for (let fold = form.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    const note = Object.assign(document.createElement("p"), { className: "hint", textContent: "What you typed is back, except secrets. Check it before you send it." });
    note.setAttribute("role", "status");
    form.before(note);
    if (Object.keys(left).length > 0) document.addEventListener("htmx:afterSettle", () => fill(form, left), { once: true });
    // Fields and previews that follow from others.
    document.addEventListener("DOMContentLoaded", () => setTimeout(() => form.dispatchEvent(new Event("change", { bubbles: true }))), { once: true });
  }
  found?.scrollIntoView({ block: "center" });
  return found !== null;
}

document.addEventListener("input", touch);
document.addEventListener("change", touch);
document.addEventListener("submit", (event) => {
  if (event.target.matches("form[action$='/signOut']")) {
    touched.clear();
    forget();
  } else touch(event);
});
window.addEventListener("pagehide", () => {
  if (!person || touched.size === 0) return;
  const forms = {};
  for (const [key, form] of touched) {
    if (!form.isConnected) continue;
    forms[key] = Object.fromEntries([...fields(form)].filter(([, field]) => isKept(field)).map(([name, field, isBox]) => [name, isBox ? field.checked : field.value]));
  }
  write({ person, forms, at: Date.now(), interrupted: false });
});

const draft = read();
if (draft && !person) write({ ...draft, interrupted: true });
else if (draft && draft.person !== person) forget();
else if (draft && (!draft.interrupted || Date.now() - draft.at > KEPT_MS || bringBack(draft.forms))) sessionStorage.removeItem(KEY);
