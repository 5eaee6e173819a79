// Shortcuts. Single keys never work in a field, in a dialog, or where somebody switched them off.
import { CONSOLE } from "./base.js";
import { openPalette } from "./palette.js";

const GO_WITHIN_MS = 800;
const root = document.documentElement;
// The editor takes keys through an element of its own, which has no sign of a text field.
const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], [data-editor]";
const isTyping = (event) => event.target.editContext || event.target.closest(FIELDS);

function keep(kind, value) {
  root.dataset[kind] = value;
  const body = new URLSearchParams({ [kind]: value, back: "/console" });
  // The answer leads to a page, which nobody looks at; the cookie is what counts.
  fetch(`${CONSOLE}/theme`, { method: "POST", body, redirect: "manual" });
}

function switchTheme() {
  const isDark = root.dataset.theme === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : root.dataset.theme === "dark";
  keep("theme", isDark ? "light" : "dark");
}

let row = null;
function rows() {
  return [...document.querySelectorAll("main tbody tr, main [data-rows] > li")].filter((each) => each.querySelector("a"));
}
function moveTo(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(row);
  row?.removeAttribute("data-focus");
  row = all[Math.max(0, Math.min(all.length - 1, at + step))];
  row.dataset.focus = "";
  row.scrollIntoView({ block: "nearest" });
}
function moveTab(step) {
  const tabs = [...document.querySelectorAll("main .views a")];
  const next = tabs[tabs.findIndex((tab) => tab.hasAttribute("aria-current")) + step];
  if (next && tabs.length) location.assign(next.href);
}

// What somebody types is one more term of the filter.
function focusFilter() {
  const filter = document.querySelector("main [data-filter], main input[type=search]");
  if (!filter) return;
  if (filter.value && !filter.value.endsWith(" ")) filter.value += " ";
  filter.focus();
  filter.setSelectionRange(filter.value.length, filter.value.length);
}

// Other scripts add theirs; an element with [data-key] is clicked by its key.
export const ACTS = {
  "/": focusFilter,
  "?": () => document.getElementById("keys")?.showModal(),
  t: switchTheme,
  d: () => keep("density", root.dataset.density === "compact" ? "comfortable" : "compact"),
  j: () => moveTo(1),
  k: () => moveTo(row ? -1 : 1),
  x: (event) => row?.querySelector("input[type=checkbox]")?.dispatchEvent(new MouseEvent("click", { bubbles: true, shiftKey: event.shiftKey })),
  "]": () => moveTab(1),
  "[": () => moveTab(-1),
};

let goSince = -Infinity;
document.addEventListener("keydown", (event) => {
  const key = event.key.toLowerCase();
  if ((event.ctrlKey || event.metaKey) && key === "k") {
    event.preventDefault();
    return openPalette();
  }
  if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (key === "escape" && row) {
    row.removeAttribute("data-focus");
    row = null;
  }
  if (key === "enter" && row && event.target === document.body) return row.querySelector("a").click();
  if (root.dataset.keys === "off") return;
  if (performance.now() - goSince < GO_WITHIN_MS) {
    goSince = -Infinity;
    const entry = document.querySelector(`.side [data-go="${CSS.escape(key)}"]`);
    if (entry) return location.assign(entry.href);
  }
  goSince = key === "g" ? performance.now() : -Infinity;
  const keyed = /^[a-z]$/.test(key) && document.querySelector(`main [data-key="${key}"]`);
  if (keyed) {
    event.preventDefault();
    keyed.click();
  } else if (Object.hasOwn(ACTS, key)) {
    event.preventDefault();
    ACTS[key](event);
  }
});
