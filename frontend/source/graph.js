// The graph of components, and of an instance with its submodules. The page also describes it as text.
import cytoscape from "cytoscape";
import dagre from "cytoscape-dagre";

cytoscape.use(dagre);
cytoscape.warnings(false); // it warns about label widths, which are exact enough

// A token is a pair of colors; only a computed color says which one applies.
const probe = document.createElement("span");
probe.hidden = true;
document.body.append(probe);

function colour(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

function styles() {
  const tone = (kind) => ({ "background-color": colour(`--${kind}-soft`), "border-color": colour(`--${kind}`) });
  return [
    {
      selector: "node",
      style: {
        shape: "round-rectangle", label: "data(label)", "text-wrap": "wrap", "text-max-width": 190, "text-valign": "center",
        "font-family": "system-ui, sans-serif", "font-size": 12, color: colour("--text"), width: "label", height: "label", padding: "11px",
        "background-color": colour("--surface"), "border-width": 1.5, "border-color": colour("--control"),
      },
    },
    { selector: "node:parent", style: { "text-valign": "top", "background-color": colour("--sunken"), "border-style": "dashed", padding: "14px" } },
    { selector: "node[kind = 'submodule']", style: { "border-style": "double", "border-width": 4 } },
    { selector: "node[kind = 'service']", style: { shape: "round-hexagon", padding: "16px" } },
    { selector: "node[kind = 'application']", style: { "background-color": colour("--accent-soft"), "border-color": colour("--accent") } },
    { selector: "node[status = 'Running']", style: tone("ok") },
    { selector: "node[status = 'Failed']", style: tone("fail") },
    { selector: "node[status = 'Requested'], node[status = 'Executing'], node[status = 'Destroying']", style: tone("busy") },
    { selector: "node[status = 'Destroyed']", style: tone("idle") },
    {
      selector: "edge",
      style: {
        width: 1.5, "curve-style": "bezier", "line-color": colour("--control"), "target-arrow-color": colour("--control"),
        "target-arrow-shape": "triangle", "arrow-scale": .9, label: "data(label)", "font-size": 10, color: colour("--text-2"),
        "text-background-color": colour("--page"), "text-background-opacity": .85, "text-background-padding": "2px", "text-wrap": "wrap", "text-max-width": 130,
      },
    },
    { selector: "edge[kind = 'public']", style: { "line-style": "dashed" } },
  ];
}

function draw(host) {
  const graph = cytoscape({
    container: host,
    elements: JSON.parse(host.dataset.graph),
    style: styles(),
    layout: { name: "dagre", rankDir: "TB", nodeSep: 22, rankSep: 70, padding: 18, animate: false },
    maxZoom: 1.6, minZoom: .15, userZoomingEnabled: false, autoungrabify: true,
  });
  if (graph.zoom() > 1.15) {
    graph.zoom(1.15);
    graph.center();
  }
  graph.on("tap", "node", (event) => {
    const href = event.target.data("href");
    if (href && href.startsWith("/console/")) location.assign(href);
  });
  const repaint = () => graph.style(styles());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  // The live part of the page brings new statuses.
  const updateStatuses = () => {
    const live = document.getElementById("statuses");
    if (!live) return;
    for (const [id, status] of Object.entries(JSON.parse(live.dataset.statuses))) {
      const node = graph.getElementById(id);
      if (node.length && node.data("status") !== status) node.data("status", status);
    }
    host.dataset.statuses = live.dataset.statuses;
  };
  document.addEventListener("htmx:sseMessage", updateStatuses);
  document.addEventListener("htmx:afterSettle", updateStatuses);
  updateStatuses();
  host.dataset.ready = "yes";
}

for (const host of document.querySelectorAll("[data-graph]")) draw(host);
