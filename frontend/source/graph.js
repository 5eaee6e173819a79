// The graph of components. The server draws it; this moves the view, follows bindings by keys, finds, and takes the live
// states. Without it, every node is a link to the page with its neighborhood.
const SVG = "http://www.w3.org/2000/svg";
const CLOSEST_PX = 320; // of the drawing across the view
const LEGIBLE = 0.8; // below this scale the view opens at natural size
const LEGIBLE_NARROW = 0.5; // on a phone, where whoever reads zooms in with two fingers anyway
const NARROW_PX = 480;
const MARGIN_PX = 8;
const LARGEST = 1.15;
const KEYS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
const clamp = (least, value, most) => Math.max(least, Math.min(most, value));

function graph(host) {
  const svg = host.querySelector("svg.stage");
  const mini = host.querySelector(".mini");
  const frame = mini?.querySelector(".view");
  const nodes = [...svg.querySelectorAll(".node")];
  const byId = new Map(nodes.map((node) => [node.dataset.id, node]));
  const place = new Map(nodes.map((node) => {
    const { e, f } = node.transform.baseVal.consolidate().matrix;
    const { width, height } = node.querySelector(".box").getBBox();
    return [node, { x: e, y: f, width, height }];
  }));
  const { x, y, width, height } = svg.viewBox.baseVal;
  let whole = [x, y, width, height];
  let view = [...whole];

  const show = () => {
    svg.setAttribute("viewBox", view.join(" "));
    const isWhole = [0, 1].every((at) => view[at] <= whole[at] + 1 && view[at] + view[at + 2] >= whole[at] + whole[at + 2] - 1);
    mini?.toggleAttribute("hidden", isWhole); // an SVG element has no property for it
    ["x", "y", "width", "height"].forEach((name, at) => frame?.setAttribute(name, view[at]));
  };
  const zoom = (factor, cx = view[0] + view[2] / 2, cy = view[1] + view[3] / 2) => {
    const across = clamp(CLOSEST_PX, view[2] * factor, whole[2] * 1.6);
    const ratio = across / view[2];
    view = [cx - (cx - view[0]) * ratio, cy - (cy - view[1]) * ratio, across, view[3] * ratio];
    show();
  };
  const center = (node) => {
    const { x: left, y: top, width: wide, height: high } = place.get(node);
    view[0] = left + wide / 2 - view[2] / 2;
    view[1] = top + high / 2 - view[3] / 2;
    show();
  };
  const isSeen = (node) => {
    const { x: left, y: top, width: wide, height: high } = place.get(node);
    return left >= view[0] && top >= view[1] && left + wide <= view[0] + view[2] && top + high <= view[1] + view[3];
  };
  const fit = () => {
    view = [...whole];
    show();
  };

  // The left edge cuts no node: it moves before the node, or behind it where `start` would leave the view.
  const uncut = (left, wide, start) => {
    const cut = [...place.values()].filter((each) => each.x < left && left < each.x + each.width);
    if (cut.length === 0) return left;
    const before = Math.min(...cut.map((each) => each.x)) - MARGIN_PX;
    return start.x + start.width <= before + wide ? before : Math.max(...cut.map((each) => each.x + each.width)) + MARGIN_PX;
  };

  // Never illegibly small: a large graph opens at natural size, on the focus or the first failure.
  const begin = () => {
    const scale = Math.min(svg.clientWidth / whole[2], svg.clientHeight / whole[3]);
    const size = scale < (svg.clientWidth < NARROW_PX ? LEGIBLE_NARROW : LEGIBLE) ? 1 : Math.min(scale, LARGEST);
    const [wide, high] = [svg.clientWidth / size, svg.clientHeight / size];
    const start = svg.querySelector(".node.sel") ?? svg.querySelector(".node.hit") ?? svg.querySelector(".node.fail") ?? svg.querySelector(".node.busy");
    const at = start ? place.get(start) : { x: whole[0], y: whole[1] + whole[3] / 2, width: wide, height: 0 };
    const inside = (middle, length, from, all) => (length >= all ? from + all / 2 : clamp(from + length / 2, middle, from + all - length / 2)) - length / 2;
    view = [uncut(inside(at.x + at.width / 2, wide, whole[0], whole[2]), wide, at), inside(at.y + at.height / 2, high, whole[1], whole[3]), wide, high];
    if (scale > LARGEST) whole = [...view];
    show();
  };

  const showCard = (id) => {
    const card = document.getElementById("component");
    if (!card || !host.dataset.card) return;
    card.hidden = false;
    const query = new URLSearchParams(location.search);
    query.set("focus", id);
    window.htmx.ajax("GET", `${host.dataset.card}?${query}`, { target: card, swap: "innerHTML" });
  };

  const select = (node) => {
    const id = node?.dataset.id;
    for (const each of svg.querySelectorAll(".hot, .near, .sel")) each.classList.remove("hot", "near", "sel");
    host.classList.toggle("focus", Boolean(node));
    for (const each of nodes) each.setAttribute("tabindex", each === (node ?? nodes[0]) ? "0" : "-1");
    if (!node) return;
    node.classList.add("near", "sel");
    for (const line of svg.querySelectorAll(".edge, .edge-l")) {
      if (line.dataset.a !== id && line.dataset.b !== id) continue;
      line.classList.add("hot");
      byId.get(line.dataset.a)?.classList.add("near");
      byId.get(line.dataset.b)?.classList.add("near");
    }
    if (!node.classList.contains("folded")) showCard(id);
  };

  // The nearest node in a direction: forward counts once, sideways two and a half times.
  const nearest = (node, [dx, dy]) => {
    const from = place.get(node);
    let best = null;
    for (const other of nodes) {
      const to = place.get(other);
      const [right, down] = [to.x - from.x, to.y - from.y];
      const forward = right * dx + down * dy;
      if (other === node || forward <= 4) continue;
      const far = forward + 2.5 * Math.abs(right * dy + down * dx);
      if (!best || far < best[0]) best = [far, other];
    }
    return best?.[1];
  };

  let drag = null;
  let hasMoved = false;
  svg.addEventListener("pointerdown", (event) => {
    drag = [event.clientX, event.clientY, ...view];
    hasMoved = false;
  });
  svg.addEventListener("pointermove", (event) => {
    if (!drag || !event.buttons) return;
    const [right, down] = [event.clientX - drag[0], event.clientY - drag[1]];
    hasMoved ||= Math.hypot(right, down) > 4;
    const scale = 1 / svg.getScreenCTM().a;
    view = [drag[2] - right * scale, drag[3] - down * scale, view[2], view[3]];
    show();
  });
  svg.addEventListener("dragstart", (event) => event.preventDefault());
  svg.addEventListener("click", (event) => {
    const node = event.target.closest(".node");
    if (hasMoved) return event.preventDefault();
    if (event.target.closest(".fold") || event.ctrlKey || event.metaKey || node?.classList.contains("folded")) return;
    if (node) event.preventDefault();
    select(node);
  });
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && !svg.contains(document.activeElement)) return;
    event.preventDefault();
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, at.x, at.y);
  }, { passive: false });
  svg.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const node = event.target.closest(".node");
    const acts = { Escape: () => select(), "+": () => zoom(1 / 1.25), "=": () => zoom(1 / 1.25), "-": () => zoom(1.25), 0: fit };
    if (Object.hasOwn(acts, event.key)) {
      event.preventDefault();
      return acts[event.key]();
    }
    if (!KEYS[event.key] || !node) return;
    event.preventDefault();
    const next = nearest(node, KEYS[event.key]);
    if (!next) return;
    select(next);
    next.focus({ preventScroll: true });
    if (!isSeen(next)) center(next);
  });

  host.querySelector("input[type=search]")?.addEventListener("input", (event) => {
    const word = event.target.value.trim().toLowerCase();
    let first = null;
    for (const node of nodes) {
      const isHit = word !== "" && node.dataset.n.toLowerCase().includes(word);
      node.classList.toggle("hit", isHit);
      if (isHit) first ??= node;
    }
    host.classList.toggle("finding", word !== "");
    if (first) center(first);
  });
  for (const button of host.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => (button.dataset.zoom === "fit" ? fit() : zoom(button.dataset.zoom === "in" ? 1 / 1.3 : 1.3)));
  }
  const zooms = host.querySelector("[data-zooms]");
  if (zooms) zooms.hidden = false;

  const marks = new Map();
  if (mini) {
    for (const node of nodes) {
      const mark = document.createElementNS(SVG, "rect");
      for (const [name, value] of Object.entries(place.get(node))) mark.setAttribute(name, value);
      mark.setAttribute("class", node.getAttribute("class").replace("node", ""));
      marks.set(node, mark);
      frame.before(mark);
    }
    mini.addEventListener("pointerdown", (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(mini.getScreenCTM().inverse());
      view[0] = at.x - view[2] / 2;
      view[1] = at.y - view[3] / 2;
      show();
    });
  }

  // A state is a class, a glyph, words, a note and the parts of a bar.
  const KINDS = ["ok", "busy", "wait", "fail", "queued", "skip-s", "stop", "gone"];
  host.addEventListener("launchbay:states", (event) => {
    for (const [id, [kind, shape, words, note, parts]] of Object.entries(event.detail)) {
      const node = byId.get(id);
      if (!node) continue;
      const isInCard = document.querySelector("#component [data-component]")?.dataset.component === id;
      if (isInCard && !node.classList.contains(kind)) showCard(id);
      for (const each of [node, marks.get(node)]) {
        each?.classList.remove(...KINDS);
        each?.classList.add(kind);
      }
      const use = node.querySelector("use");
      use.setAttribute("href", use.getAttribute("href").replace(/#.*/, `#g-${shape}`));
      // The name must contain what is seen, in its order.
      const seen = [node.getAttribute("aria-label").split(", ")[0], note, words].filter((each, at, all) => each && all.indexOf(each) === at);
      node.setAttribute("aria-label", seen.join(", "));
      node.querySelector(".t2").textContent = note;
      for (const bar of node.querySelectorAll(".bar-bg, .bar-fg")) bar.remove();
      for (const [name, left, wide] of parts) {
        const bar = document.createElementNS(SVG, "rect");
        for (const [key, value] of [["class", name], ["x", left], ["y", 39], ["width", wide], ["height", 3]]) bar.setAttribute(key, value);
        node.append(bar);
      }
    }
  });

  begin();
  for (const node of nodes) node.setAttribute("tabindex", "-1");
  (svg.querySelector(".node.sel") ?? nodes[0])?.setAttribute("tabindex", "0");
  host.dataset.ready = "yes";
}

for (const host of document.querySelectorAll("[data-graph]")) graph(host);

// The stream brings states as JSON; an element that is not shown receives them.
document.addEventListener("htmx:sseBeforeMessage", (event) => {
  if (!event.target.matches("[data-graph-live]")) return;
  event.preventDefault();
  const detail = JSON.parse(event.detail.data);
  for (const host of document.querySelectorAll("[data-graph]")) host.dispatchEvent(new CustomEvent("launchbay:states", { detail }));
});
