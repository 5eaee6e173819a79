// The command palette. The server answers with names and sections; commands of this page and what was opened last come
// from the page itself.
import { asOnServer } from "./base.js";

const MOST_RECENT = 6;
const RECENT = "launchbay.recent";
const dialog = document.getElementById("palette");
const input = dialog?.querySelector("input");
const list = dialog?.querySelector("ul");
const home = document.body.dataset.home ?? "";

// In the tab only: names must not stay in a browser after its user signed out.
const recent = () => JSON.parse(sessionStorage.getItem(RECENT) ?? "[]").filter((each) => each.home === home);

function remember() {
  if (!/^\/console\/(instances|applications|environments|services|roles)\/[0-9a-f]{24}$/.test(asOnServer(location.pathname))) return;
  const entry = { home, href: location.pathname, text: document.querySelector("h1")?.textContent.trim() ?? "" };
  const others = JSON.parse(sessionStorage.getItem(RECENT) ?? "[]").filter((each) => each.href !== entry.href);
  sessionStorage.setItem(RECENT, JSON.stringify([entry, ...others].slice(0, 20)));
}

function option(text, id) {
  const item = document.createElement("li");
  item.setAttribute("role", "option");
  item.id = id;
  item.append(Object.assign(document.createElement("span"), { textContent: text }));
  return item;
}

function group(title, items) {
  if (!items.length) return [];
  const head = Object.assign(document.createElement("li"), { className: "grp", textContent: title });
  head.setAttribute("role", "presentation");
  return [head, ...items];
}

// The buttons and links in the head of the page are its commands.
function commands(wanted) {
  const all = [...document.querySelectorAll("main .head .btn")].filter((each) => !each.disabled && each.offsetParent && each.textContent.trim());
  return all
    .filter((each) => each.textContent.trim().toLowerCase().includes(wanted))
    .map((each, at) => Object.assign(option(each.textContent.trim(), `here-${at}`), { act: () => each.click() }));
}

function opened(wanted) {
  return recent()
    .filter((each) => each.href !== location.pathname && each.text.toLowerCase().includes(wanted))
    .slice(0, MOST_RECENT)
    .map((each, at) => {
      const item = option(each.text, `recent-${at}`);
      item.dataset.href = each.href;
      return item;
    });
}

const options = () => [...list.querySelectorAll("[role=option]")];

function select(item) {
  for (const each of options()) each.setAttribute("aria-selected", String(each === item));
  if (item) {
    input.setAttribute("aria-activedescendant", item.id);
    item.scrollIntoView({ block: "nearest" });
  } else input.removeAttribute("aria-activedescendant");
}

function move(step) {
  const all = options();
  const at = all.findIndex((each) => each.getAttribute("aria-selected") === "true");
  if (all.length) select(all[(at + step + all.length) % all.length]);
}

function pick(item, inNewTab) {
  if (!item) return;
  if (item.dataset.fill) {
    input.value = item.dataset.fill;
    return input.dispatchEvent(new Event("show"));
  }
  dialog.close();
  if (item.act) item.act();
  else if (inNewTab) window.open(item.dataset.href, "_blank", "noopener");
  else location.assign(item.dataset.href);
}

export function openPalette() {
  if (!dialog || dialog.open) return;
  input.value = "";
  dialog.showModal();
  input.focus();
  input.dispatchEvent(new Event("show"));
}

if (dialog) {
  remember();
  for (const button of document.querySelectorAll("[data-palette]")) {
    button.hidden = false;
    button.addEventListener("click", openPalette);
  }
  list.addEventListener("htmx:afterSwap", () => {
    const wanted = input.value.trim().toLowerCase();
    list.prepend(...group("On this page", commands(wanted)));
    list.append(...group("Recent", opened(wanted)));
    select(options()[0]);
  });
  list.addEventListener("click", (event) => pick(event.target.closest("[role=option]"), event.ctrlKey || event.metaKey));
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      move(step);
    } else if (event.key === "Enter") {
      event.preventDefault();
      pick(list.querySelector("[aria-selected=true]"), event.ctrlKey || event.metaKey);
    }
  });
}
