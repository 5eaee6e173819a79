// Loaded by every page: htmx with server-sent events and morphing, and small conveniences. Pages work without it.
import "./htmx_global.js";
import "htmx-ext-sse";
import { Idiomorph } from "idiomorph/dist/idiomorph.esm.js";
import "./connection.js";
import "./drafts.js";
import "./editor_on_use.js";
import "./focus.js";
import "./graph.js";
import "./keys.js";
import "./palette.js";
import "./ticks.js";
import "./row_menu.js";
import "./selection.js";
import "./run.js";

const htmx = window.htmx;

// Morphing keeps the focus and what somebody opened when the live part of a page is updated.
const callbacks = { beforeAttributeUpdated: (name, node) => !(name === "open" && /^(DETAILS|DIALOG)$/.test(node.nodeName)) };
htmx.defineExtension("morph", {
  isInlineSwap: (style) => style === "morph" || style === "morph:innerHTML",
  handleSwap: (style, target, fragment) => {
    if (style === "morph" || style === "morph:outerHTML") {
      return Idiomorph.morph(target, fragment.children, { morphStyle: "outerHTML", callbacks });
    }
    if (style === "morph:innerHTML") {
      return Idiomorph.morph(target, fragment.children, { morphStyle: "innerHTML", callbacks });
    }
    return false;
  },
});

// Escape and a click outside close a menu.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

// An open menu is in the window, whatever it is in: rows that scroll cut off what hangs below them.
const EDGE_PX = 8;
const GAP_PX = 4;
function place(menu) {
  const list = menu.querySelector(":scope > :not(summary)");
  const bar = document.querySelector(".tabbar");
  const floor = !bar || bar.contains(menu) || !bar.checkVisibility() ? innerHeight : bar.getBoundingClientRect().top;
  const opener = menu.querySelector("summary").getBoundingClientRect();
  const below = floor - opener.bottom - GAP_PX - EDGE_PX;
  const above = opener.top - GAP_PX - EDGE_PX;
  const most = `min(24rem, ${innerWidth - 2 * EDGE_PX}px)`;
  Object.assign(list.style, { position: "fixed", inset: "0 auto auto 0", maxWidth: most, maxHeight: "none", overflow: "auto", overflowWrap: "anywhere", whiteSpace: "normal" });
  const height = list.offsetHeight;
  const isBelow = height <= below || below >= above;
  list.style.maxHeight = `${isBelow ? below : above}px`;
  const { left, top, width } = list.getBoundingClientRect(); // of what the browser takes for the window
  const wanted = menu.classList.contains("left") ? opener.left : opener.right - width;
  list.style.left = `${Math.max(EDGE_PX, Math.min(wanted, innerWidth - width - EDGE_PX)) - left}px`;
  list.style.top = `${(isBelow ? opener.bottom + GAP_PX : opener.top - GAP_PX - Math.min(height, above)) - top}px`;
}
// Its size may change once it is open: a font arrives, or what it lists.
const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) if (target.closest("details.menu[open]")) place(target.parentElement);
});
document.addEventListener("toggle", (event) => {
  if (!event.target.matches("details.menu[open]")) return;
  place(event.target);
  resized.observe(event.target.querySelector(":scope > :not(summary)"));
}, true);
for (const each of ["scroll", "resize"]) {
  window.addEventListener(each, (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!(event.target instanceof Node && menu.contains(event.target))) place(menu);
    }
  }, true);
}

// Of tabs that don't fit, the current one is in view.
for (const tab of document.querySelectorAll(".views [aria-current]")) {
  const { left, width } = tab.parentElement.getBoundingClientRect();
  const own = tab.getBoundingClientRect();
  tab.parentElement.scrollLeft += own.left - left - (width - own.width) / 2;
}

// Dialogs: [data-open] names one; [data-close] and a click beside it close it. The browser gives the focus back.
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-open]");
  if (opener) {
    event.preventDefault();
    document.getElementById(opener.dataset.open)?.showModal();
  }
  if (event.target.closest("[data-close]") || event.target.nodeName === "DIALOG") event.target.closest("dialog")?.close();
});

// What somebody is about to answer stays as it is until they close it.
document.addEventListener("htmx:sseBeforeMessage", (event) => {
  if (event.target.querySelector?.("dialog[open]")) event.preventDefault();
});

// A row that was changed shows it for a while.
const before = new WeakMap();
document.addEventListener("htmx:sseBeforeMessage", (event) => {
  const row = event.target.closest?.("tr");
  if (row) before.set(row, row.textContent);
});
document.addEventListener("htmx:sseMessage", (event) => {
  const row = event.target.closest?.("tr");
  if (!row || before.get(row) === row.textContent) return;
  row.dataset.changed = "";
  setTimeout(() => delete row.dataset.changed, 2000);
});

// The newest lines of a log are in view, or those of what is wrong.
for (const log of document.querySelectorAll("ol.log")) {
  const fault = document.getElementById("live-error") && [...log.querySelectorAll(".error")].at(-1);
  log.scrollTop = log.scrollHeight;
  if (fault) log.scrollTop += fault.getBoundingClientRect().top - log.getBoundingClientRect().top - log.clientHeight / 2;
}

// A log that is scrolled to its end stays there.
document.addEventListener("htmx:sseBeforeMessage", () => {
  for (const log of document.querySelectorAll(".log")) {
    log.dataset.atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40 ? "yes" : "no";
  }
});
document.addEventListener("htmx:sseMessage", () => {
  for (const log of document.querySelectorAll(".log")) {
    // After a reconnect the stream starts where the page did; remove repeated lines.
    const seen = new Set();
    for (const line of [...log.children]) {
      if (line.id && seen.has(line.id)) line.remove();
      seen.add(line.id);
    }
    while (log.children.length > 2000) log.firstElementChild.remove();
    if (log.dataset.atEnd !== "no") log.scrollTop = log.scrollHeight;
  }
});

// Parts that change are read again from time to time, while somebody can see them and is not about to use them.
// `data-refresh="soon"` is of what ends within seconds, such as a plan that is being made.
const REFRESH_MS = 10_000;
const REFRESH_SOON_MS = 2_000;
function refresh(chosen, everyMs) {
  setInterval(async () => {
    if (document.hidden) return;
    for (const part of document.querySelectorAll(chosen)) {
      if (part.matches(":hover, :focus-within") && document.activeElement !== document.body) continue;
      await htmx.ajax("GET", location.href, { target: part, select: `#${part.id}`, swap: "morph:outerHTML" }).catch(() => undefined);
    }
  }, everyMs);
}
if (document.querySelector("[data-refresh]")) {
  refresh("[data-refresh]:not([data-refresh='soon'])", REFRESH_MS);
  refresh("[data-refresh='soon']", REFRESH_SOON_MS);
}

// A message about what was done leaves by itself, unless somebody is reading it.
for (const toast of document.querySelectorAll("[data-toast]")) {
  const leave = () => (toast.matches(":hover") ? setTimeout(leave, 2000) : toast.remove());
  setTimeout(leave, 12_000);
}

// A second click doesn't submit a form again.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post" || form.hasAttribute("hx-post")) return;
  if ("sent" in form.dataset) return event.preventDefault();
  form.dataset.sent = "";
  setTimeout(() => {
    for (const button of form.querySelectorAll("button[type=submit]")) button.disabled = true;
  });
});
// A page that somebody comes back to doesn't show what was revealed on it.
window.addEventListener("pagehide", () => {
  for (const shown of document.querySelectorAll("[data-shown]")) shown.textContent = "••••••••";
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  for (const button of document.querySelectorAll("form button[type=submit]:disabled:not([title])")) button.disabled = false;
});

// [data-copy] is a text for the clipboard; browsers allow that on secure pages only.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button || !navigator.clipboard) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  const shown = [...button.childNodes];
  button.textContent = "Copied";
  setTimeout(() => button.replaceChildren(...shown), 1500);
});
