// The YAML editor: CodeMirror in front of a hidden text area, which remains the form's field.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { forceLinting, lintGutter, lintKeymap, linter } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { completionSource, componentsOf } from "./completion.js";

const IDLE_MS = 350;

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--syn-key)" },
  { tag: [tags.string, tags.content], color: "var(--syn-str)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--syn-num)" },
  { tag: tags.comment, color: "var(--syn-com)", fontStyle: "italic" },
  { tag: [tags.labelName, tags.typeName, tags.keyword, tags.meta], color: "var(--syn-mark)" },
]);

// The glyphs of the console for findings in the gutter, in its colors: the shape is a mask, with the sign cut out.
function gutterGlyph(shape, sign, color) {
  const stroke = "stroke-width='1.7' stroke-linecap='round' stroke-linejoin='round'";
  const svg = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><mask id='m'><path d='${shape}' fill='#fff'/><path d='${sign}' stroke='#000' ${stroke}/></mask><path d='M0 0h16v16H0z' mask='url(#m)'/></svg>`;
  return { content: "normal", backgroundColor: color, forcedColorAdjust: "none", mask: `url("data:image/svg+xml,${encodeURIComponent(svg)}") center / contain no-repeat` };
}

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "13.5px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", maxHeight: "70vh" },
  ".cm-content, .cm-gutter": { minHeight: "var(--editor-least)" },
  ".cm-content": { caretColor: "var(--text)", padding: "10px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-2px" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--text-3)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent-soft) 45%, transparent)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft) !important" },
  ".cm-selectionMatch": { backgroundColor: "var(--wait-soft)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--control)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "inherit", fontStyle: "normal", marginLeft: "1em" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--fail)", textUnderlineOffset: "3px" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--wait)", textUnderlineOffset: "3px" },
  ".cm-lint-marker-error": gutterGlyph("M5.3 1.5h5.4L14.5 5.3v5.4l-3.8 3.8H5.3L1.5 10.7V5.3z", "m5.7 5.7 4.6 4.6m0-4.6-4.6 4.6", "var(--fail)"),
  ".cm-lint-marker-warning": gutterGlyph("M8 1.5 15 14H1z", "M8 6v3.5M8 11.7h.01", "var(--wait)"),
  ".cm-panels": { backgroundColor: "var(--sunken)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-panels input, .cm-panels button": { backgroundImage: "none", backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--control)" },
});

function diagnostic(doc, finding, severity) {
  const line = doc.line(Math.min(Math.max(finding.line, 1), doc.lines));
  const from = Math.min(line.from + Math.max(finding.column, 1) - 1, line.to);
  const word = /^[^\s:,\]})]+/.exec(doc.sliceString(from, line.to));
  return { from, to: Math.max(from, from + (word ? word[0].length : 0)), severity, message: finding.message, source: finding.code };
}

async function fetchFindings(address, text, token) {
  const response = await fetch(address, {
    method: "POST",
    headers: { "Content-Type": "application/x-www-form-urlencoded", "X-Form-Token": token, Accept: "application/json" },
    body: new URLSearchParams({ text }),
  });
  if (!response.ok) throw new Error(`The check failed with status ${response.status}.`);
  return response.json();
}

function jump(view, line, column) {
  const found = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines));
  view.dispatch({ selection: { anchor: Math.min(found.from + Math.max(column, 1) - 1, found.to) }, scrollIntoView: true });
  view.focus();
}

// A row of a list beside the text, with a button that leads to a place in it.
function row(view, title, place, line, column) {
  const item = document.createElement("li");
  const words = document.createElement("div");
  const name = document.createElement("p");
  const button = document.createElement("button");
  words.className = "two";
  name.className = "name";
  name.textContent = title;
  button.type = "button";
  button.textContent = place;
  button.addEventListener("click", () => jump(view, line, column));
  words.append(name, button);
  item.append(words);
  return item;
}

const SVG = "http://www.w3.org/2000/svg";

const color = (kind) => (kind === "warn" ? "wait" : kind);

function glyph(host, kind, words = "") {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  svg.setAttribute("class", `g ${color(kind)}`);
  if (words) svg.setAttribute("role", "img");
  svg.setAttribute(...(words ? ["aria-label", words] : ["aria-hidden", "true"]));
  use.setAttribute("href", `${host.dataset.glyphs}#g-${kind}`);
  svg.append(use);
  return svg;
}

function listFindings(host, view, { errors, warnings }) {
  const list = document.getElementById(host.dataset.findings);
  if (!list) return;
  const entries = [...errors.map((each) => ["error", each]), ...warnings.map((each) => ["warning", each])];
  list.replaceChildren(
    ...entries.map(([severity, finding]) => {
      const item = row(view, finding.message, `Line ${finding.line}, column ${finding.column}`, finding.line, finding.column);
      item.className = `r-broken ${severity}`;
      item.prepend(severity === "error" ? glyph(host, "fail", "Error") : glyph(host, "warn", "Warning"));
      return item;
    }),
  );
  const count = document.getElementById(`${host.dataset.findings}-count`);
  if (count) {
    const found = [["fail", errors, "error"], ["warn", warnings, "warning"]].filter(([, each]) => each.length);
    const words = found.map(([kind, each, noun]) => {
      const status = document.createElement("span");
      status.className = `st plain ${color(kind)}`;
      status.append(glyph(host, kind), `${each.length} ${noun}${each.length === 1 ? "" : "s"} `);
      return status;
    });
    const text = words.map((each) => each.textContent).join("") || "No errors, no warnings";
    if (count.textContent !== text) count.replaceChildren(...(words.length ? words : [text]));
  }
}

function listComponents(host, view) {
  const list = document.getElementById(host.dataset.outline);
  if (!list) return;
  const rows = [];
  for (const [name, { pins, line }] of componentsOf(view.state.doc.toString())) {
    const item = row(view, name, `Line ${line}${pins.length ? `, ${pins.length} ${pins.length === 1 ? "pin" : "pins"}` : ""}`, line, 1);
    item.className = "r-plain";
    rows.push(item);
  }
  list.replaceChildren(...rows);
  list.parentElement.hidden = !rows.length;
}

const IMPACT_MS = 1200;
let asked = 0;

// What saving would mean is asked after a pause, and only the last answer is shown.
function askForImpact(host, view) {
  const place = document.getElementById("impact");
  if (!host.dataset.impact || !place) return;
  const number = (asked += 1);
  setTimeout(async () => {
    if (number !== asked) return;
    const response = await fetch(host.dataset.impact, {
      method: "POST",
      headers: { "Content-Type": "application/x-www-form-urlencoded", "X-Form-Token": host.dataset.token },
      body: new URLSearchParams({ text: view.state.doc.toString() }),
    }).catch(() => undefined);
    if (number === asked && response?.ok && !response.redirected) place.innerHTML = await response.text();
  }, IMPACT_MS);
}

function mount(host) {
  const area = host.querySelector("textarea");
  const token = host.dataset.token;
  const root = document.createElement("div");
  host.append(root);
  // In a shadow root CodeMirror uses adopted style sheets, which the content security policy allows.
  const shadow = root.attachShadow({ mode: "open" });
  const check = host.dataset.check
    ? [
        lintGutter(),
        linter(
          async (view) => {
            const doc = view.state.doc;
            let found;
            try {
              found = await fetchFindings(host.dataset.check, doc.toString(), token);
            } catch {
              return []; // the server checks again when the text is saved
            }
            listFindings(host, view, found);
            listComponents(host, view);
            askForImpact(host, view);
            return [...found.errors.map((each) => diagnostic(doc, each, "error")), ...found.warnings.map((each) => diagnostic(doc, each, "warning"))];
          },
          { delay: IDLE_MS },
        ),
      ]
    : [];
  const completions = host.dataset.completions ? JSON.parse(host.dataset.completions) : null;
  if (host.hasAttribute("data-guard")) bringBack(area, host);
  const view = new EditorView({
    parent: shadow,
    root: shadow,
    state: EditorState.create({
      doc: area.value,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        indentOnInput(),
        indentUnit.of("  "),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        yaml(),
        syntaxHighlighting(colours),
        look,
        completions ? autocompletion({ override: [completionSource(completions)] }) : [],
        check,
        EditorState.readOnly.of(area.readOnly),
        EditorView.contentAttributes.of({ "aria-label": host.dataset.label || "YAML text", spellcheck: "false", tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          area.value = update.state.doc.toString();
          area.dispatchEvent(new Event("input", { bubbles: true }));
        }),
        keymap.of([{ key: "Mod-s", run: () => submit(area), preventDefault: true }, ...closeBracketsKeymap, ...completionKeymap, ...lintKeymap, ...searchKeymap, ...historyKeymap, ...defaultKeymap]),
      ],
    }),
  });
  area.hidden = true;
  area.required = false;
  host.dataset.ready = "yes";
  if (host.dataset.check) forceLinting(view);
  if (host.hasAttribute("data-guard")) guard(area);
  const upload = host.closest("form")?.querySelector("[data-upload]");
  if (upload) {
    upload.hidden = false;
    upload.querySelector("input").addEventListener("change", async (event) => {
      const [file] = event.target.files;
      if (file) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: await file.text() } });
      event.target.value = ""; // the same file may be read again
      view.focus();
    });
  }
  return view;
}

function submit(area) {
  if (area.readOnly || !area.form) return false;
  area.form.requestSubmit();
  return true;
}

// What was sent and never arrived is there again when the page is, as long as nobody has saved another one.
const SENT = `launchbay.sent.${location.pathname}`;
function bringBack(area, host) {
  const sent = JSON.parse(sessionStorage.getItem(SENT) ?? "null");
  sessionStorage.removeItem(SENT);
  area.form.addEventListener("submit", () => {
    sessionStorage.setItem(SENT, JSON.stringify({ base: area.defaultValue, text: area.value }));
  });
  if (sent?.base !== area.defaultValue || sent.text === area.defaultValue) return;
  area.value = sent.text;
  const note = Object.assign(document.createElement("p"), { className: "body s", textContent: "Your text was sent but not saved. Here it is again." });
  note.setAttribute("role", "status");
  host.before(note);
}

// Leaving the page asks first while a text is not saved.
function guard(area) {
  const saved = area.defaultValue;
  let leaves = false;
  area.form.addEventListener("submit", () => (leaves = true));
  area.form.querySelector("[data-discard]")?.addEventListener("click", () => (leaves = true));
  window.addEventListener("beforeunload", (event) => {
    if (!leaves && area.value !== saved) event.preventDefault();
  });
}

for (const host of document.querySelectorAll("[data-editor]")) {
  const area = host.querySelector("textarea");
  const at = document.activeElement === area ? area.selectionStart : null;
  const view = mount(host);
  if (at === null) continue;
  view.dispatch({ selection: { anchor: at } });
  view.focus();
}
