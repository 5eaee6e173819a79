// After an act the focus is where it was: on the control that was used, else on the same one of the next row.
const KEY = "launchbay.focus";
const FRESH_MS = 60_000;
const ROW = "tr, li, .approval, .card";
const CONTROL = "a[href], button, input:not([type=hidden]), select, textarea, summary";

// Forms of a list may have one address; their hidden fields say of which row they are.
const rowOf = (form) => [...form.elements].filter((each) => each.type === "hidden" && each.name !== "formToken").map((each) => each.value).join(" ");

// How to find a control again on the next page, which is another document.
function describe(control) {
  if (control.id) return { id: control.id };
  const action = control.form?.getAttribute("action");
  if (action) return { action, of: rowOf(control.form), name: control.name, value: control.value };
  return { href: control.getAttribute("href"), opens: control.closest("dialog")?.id };
}

// The control itself, those like it in the rows around it (the next one first), and what it is in.
function places(control) {
  const found = [describe(control)];
  const form = control.form?.getAttribute("action");
  if (form) found.push({ action: form, of: rowOf(control.form) });
  const dialog = control.closest("dialog");
  if (dialog?.id) found.push({ opens: dialog.id });
  for (let row = control.closest(ROW); row; row = row.parentElement?.closest(ROW)) {
    const like = (other) => [...other.querySelectorAll(CONTROL)].find((each) => each.name === control.name && each.value === control.value && each.className === control.className);
    for (const other of [row.nextElementSibling, row.previousElementSibling]) {
      const next = other?.matches(ROW) && (like(other) ?? other.querySelector(CONTROL));
      if (next) found.push(describe(next));
    }
    const heading = row.querySelector("h2[id], h3[id]");
    if (heading) found.push({ id: heading.id });
  }
  return found;
}

function find({ id, action, of, name, value, href, opens }) {
  if (id) return document.getElementById(id);
  if (opens) return document.querySelector(`[data-open="${CSS.escape(opens)}"]`);
  if (href) return document.querySelector(`main a[href="${CSS.escape(href)}"]`);
  if (!action) return null;
  const own = [...document.querySelectorAll("form")].filter((form) => form.getAttribute("action") === action && rowOf(form) === of).flatMap((form) => [...form.elements]);
  return name === undefined ? own.find((each) => each.type === "submit") : own.find((each) => each.name === name && each.value === value && each.type !== "hidden");
}

function give(wanted) {
  for (const place of wanted) {
    let control = find(place);
    if (control && !control.checkVisibility()) control = control.closest("details:not([open])")?.querySelector("summary");
    if (!control || control.disabled) continue;
    if (!control.matches(CONTROL)) control.tabIndex = -1;
    control.focus();
    if (document.activeElement === control) return;
  }
}

document.addEventListener("submit", (event) => {
  const control = event.submitter ?? event.target.querySelector("[type=submit]");
  if (event.defaultPrevented || !control || !event.target.closest("main, dialog")) return;
  sessionStorage.setItem(KEY, JSON.stringify({ at: Date.now(), path: location.pathname, wanted: places(control) }));
});

const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
sessionStorage.removeItem(KEY);
if (kept && Date.now() - kept.at < FRESH_MS && document.activeElement === document.body && !document.querySelector("dialog[open]")) {
  const wrong = document.querySelector("main [aria-invalid=true], main [role=alert]:not(:empty)");
  if (wrong) {
    if (!wrong.matches(CONTROL)) wrong.tabIndex = -1;
    wrong.focus();
  } else if (kept.path === location.pathname && !location.hash) give(kept.wanted);
}

// A live update that takes the focused control away gives its place the focus.
let before = null;
const remember = (event) => {
  const control = document.activeElement;
  before = control !== document.body && event.target.contains?.(control) ? { target: event.target, wanted: places(control) } : null;
};
const restore = () => {
  if (before && document.activeElement === document.body) give([...before.wanted, ...[...before.target.querySelectorAll(CONTROL)].map(describe)]);
  before = null;
};
document.addEventListener("htmx:sseBeforeMessage", remember);
document.addEventListener("htmx:sseMessage", restore);
document.addEventListener("htmx:beforeSwap", remember);
document.addEventListener("htmx:afterSwap", restore);
