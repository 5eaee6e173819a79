// Where the console is: a proxy may serve the server below a path. This script is at `static/built/` in it.
export const CONSOLE = new URL("../..", document.currentScript.src).pathname.slice(0, -1);
// A path of the console as the server names it.
export const asOnServer = (path) => `/console${path.slice(CONSOLE.length)}`;
