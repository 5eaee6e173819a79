// The menu of a row, read from the server when somebody opens it. Without this, its button leads to the page of the row.
import { asOnServer } from "./base.js";

let menu = null;

function show(opener, text) {
  if (!menu) {
    menu = Object.assign(document.createElement("div"), { className: "menu", popover: "auto" });
    // It hangs in the top layer: a table cuts off what is larger than itself.
    Object.assign(menu.style, { position: "fixed", inset: "auto", margin: 0, padding: 0, border: 0, overflow: "visible", background: "none" });
    document.querySelector("main").append(menu);
  }
  menu.innerHTML = text;
  menu.showPopover();
  const list = menu.firstElementChild;
  list.style.position = "static";
  const place = opener.getBoundingClientRect();
  menu.style.left = `${Math.max(8, place.right - menu.offsetWidth)}px`;
  menu.style.top = `${Math.max(8, Math.min(place.bottom + 4, innerHeight - menu.offsetHeight - 8))}px`;
  menu.querySelector("a, button")?.focus();
}

document.addEventListener("click", async (event) => {
  const opener = event.target.closest("[data-row-menu]");
  if (!opener || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const back = encodeURIComponent(asOnServer(location.pathname) + location.search);
  const answer = await fetch(`${opener.pathname}/menu?back=${back}`, { headers: { "HX-Request": "true" } }).catch(() => undefined);
  if (answer?.status !== 200) return location.assign(opener.href);
  opener.focus();
  show(opener, await answer.text());
});

document.addEventListener("keydown", (event) => {
  if (!menu?.contains(document.activeElement) || !/^Arrow(Down|Up)$/.test(event.key)) return;
  event.preventDefault();
  const all = [...menu.querySelectorAll("a, button")];
  const at = all.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
  all[(at + all.length) % all.length].focus();
});
