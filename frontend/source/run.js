// The log of a run: folds, times, failures, links to lines, and following. The server draws, searches and cuts windows.
import { ACTS } from "./keys.js";

const log = document.querySelector("[data-log]");
const MOST_LINES = 1500; // in the page; older ones leave, and a link leads back to them
const lines = () => [...log.querySelectorAll("li[data-id]")];
const faults = () => lines().filter((line) => line.dataset.l === "error");

function showLine(line) {
  line.closest("details").open = true;
  line.scrollIntoView({ block: "center" });
}

function showHash() {
  const number = /^#L(\d+)$/.exec(location.hash)?.[1];
  if (!number) return;
  const line = document.getElementById(`L${number}`);
  if (line) showLine(line);
  // In another window of the log; one try is enough.
  else if (log.dataset.target !== number) location.replace(`${log.dataset.base}?line=${number}${location.hash}`);
}

let fault = null;
function moveToFault(step) {
  const found = faults();
  const shown = lines();
  const at = found.indexOf(fault ?? document.querySelector("[data-log] li:target"));
  const next = found[at < 0 ? (step > 0 ? 0 : found.length - 1) : at + step];
  if (next) {
    fault = next;
    history.replaceState(null, "", `#${next.id}`);
    location.replace(`#${next.id}`);
    return;
  }
  const isLast = step > 0 ? !log.querySelector("[data-more]") : !log.querySelector("[data-earlier]");
  if (isLast || !shown.length) return;
  const from = step > 0 ? `after=${shown.at(-1).dataset.id}` : `before=${shown[0].dataset.id}`;
  location.assign(`${log.dataset.base}/log/failure?${from}`);
}

function fold() {
  const all = [...log.querySelectorAll("details")];
  const opens = !all.some((each) => each.open);
  for (const each of all) each.open = opens;
}

function wrap(isOn) {
  log.classList.toggle("wrap-on", isOn);
  document.querySelector("[data-wrap]").setAttribute("aria-pressed", isOn);
  localStorage.setItem("log-wrap", isOn ? "on" : "off");
}

let times = localStorage.getItem("log-times") === "rel" ? "rel" : "abs";
function showTimes() {
  for (const each of document.querySelectorAll("[data-times]")) each.setAttribute("aria-pressed", each.dataset.times === times);
  for (const each of log.querySelectorAll("time[data-rel]")) {
    each.dataset.abs ??= each.textContent;
    const text = times === "rel" ? each.dataset.rel : each.dataset.abs;
    if (each.textContent !== text) each.textContent = text;
  }
}

const end = () => document.getElementById("log-end");
const isAtEnd = () => end().getBoundingClientRect().top <= innerHeight + 60;
function follow() {
  if (log.querySelector("[data-more]")) return location.assign(`${log.dataset.base}?line=999999999#log-end`);
  end().scrollIntoView({ block: "end" });
  unread(0);
}

let waiting = 0;
function unread(number) {
  waiting = number;
  const pill = log.querySelector("[data-log-end]");
  pill.hidden = !waiting;
  pill.textContent = `${waiting} new ${waiting === 1 ? "line" : "lines"}`;
}

// Lines that arrive join those of their step. After a reconnect the stream starts where the page did: repeated lines
// leave, also those that the page no longer has.
const numberOf = (line) => Number(line.id.slice(1));
let newest = log ? Math.max(0, ...lines().map(numberOf)) : 0;
function join(arrived) {
  const wasAtEnd = isAtEnd();
  const before = newest; // sections of steps that run at a time have numbers in between
  let number = 0;
  for (const section of arrived.querySelectorAll("details:not([data-joined])")) {
    section.dataset.joined = ""; // it stays where it arrived unless its step is known
    const own = [...section.querySelectorAll("li")];
    for (const line of own) {
      // A search that ended has brought lines of its own.
      if (numberOf(line) <= before || log.querySelectorAll(`#${line.id}`).length > 1) line.remove();
      else number += 1;
      newest = Math.max(newest, numberOf(line));
    }
    const isRun = section.dataset.step.startsWith("run-");
    // Not one that arrived later: its lines come after these.
    const isBefore = (each) => each !== section && (!arrived.contains(each) || "joined" in each.dataset);
    const known = isRun ? null : [...log.querySelectorAll("details")].find((each) => isBefore(each) && each.dataset.step === section.dataset.step);
    if (known) {
      known.querySelector("ol").append(...section.querySelectorAll("li"));
      known.querySelector("summary").replaceWith(section.querySelector("summary"));
      section.remove();
      if (known.querySelector("[data-l=error]")) known.open = true;
    }
    const count = (known ?? section).querySelectorAll("li").length;
    if (!count) section.remove();
    else (known ?? section).querySelector("[data-count]").textContent = `${count} ${count === 1 ? "line" : "lines"}`;
  }
  if (lines().length) log.querySelector("[data-empty]")?.remove();
  if (number) document.querySelector("[data-total]").textContent = `${newest.toLocaleString("en")} ${newest === 1 ? "line" : "lines"}`;
  for (const line of lines().slice(0, -MOST_LINES)) line.remove();
  for (const section of log.querySelectorAll("details")) if (!section.querySelector("li")) section.remove();
  showTimes();
  if (wasAtEnd && !document.hidden) end().scrollIntoView({ block: "end" });
  else unread(waiting + number);
}

if (log) {
  for (const each of document.querySelectorAll("[data-scripted]")) each.hidden = false;
  Object.assign(ACTS, { n: () => moveToFault(1), p: () => moveToFault(-1), f: fold, z: () => wrap(!log.classList.contains("wrap-on")), end: follow });
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-next-fault], [data-fold], [data-wrap], [data-times], [data-log-end]");
    if (!target) return;
    event.preventDefault();
    if (target.matches("[data-next-fault]")) moveToFault(1);
    if (target.matches("[data-fold]")) fold();
    if (target.matches("[data-wrap]")) wrap(!log.classList.contains("wrap-on"));
    if (target.matches("[data-log-end]")) follow();
    if (target.dataset.times) {
      times = target.dataset.times;
      localStorage.setItem("log-times", times);
      showTimes();
    }
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.matches?.("[data-live-lines]")) join(event.target);
    else if (log.contains(event.target)) showTimes();
  });
  addEventListener("hashchange", showHash);
  addEventListener("scroll", () => waiting && isAtEnd() && unread(0), { passive: true });
  if (localStorage.getItem("log-wrap") === "on") wrap(true);
  showTimes();
  showHash();
}

// The step that the page is about is in view, in the timeline too.
const current = document.querySelector(".gantt [aria-current]");
if (current) {
  const gantt = current.closest(".gantt");
  gantt.scrollTop = Math.max(0, current.offsetTop - gantt.clientHeight / 2);
}

// Without scripts a dialog stands in its page; with them it is modal.
const opened = document.querySelector("dialog[data-modal]");
if (opened) {
  opened.close();
  opened.showModal();
}
