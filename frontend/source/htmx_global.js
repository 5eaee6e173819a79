// The extensions below look for htmx in the window.
import htmx from "htmx.org/dist/htmx.esm.js";

window.htmx = htmx;
