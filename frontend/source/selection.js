// Rows that are selected for one act on all of them, or on so many as its button needs. The bar and its buttons work without this.
const form = document.querySelector("[data-selection]");
if (form) {
  const boxes = () => [...form.querySelectorAll("tbody input[name=id]")];
  const every = form.querySelector("[data-select-all]");
  const number = form.querySelector("[data-selected]");
  let last = null;
  const show = () => {
    const chosen = boxes().filter((box) => box.checked).length;
    if (number) number.textContent = form.elements.all?.checked ? "All" : String(chosen);
    for (const button of form.querySelectorAll("[data-needs]")) button.disabled = chosen !== Number(button.dataset.needs);
    if (every) Object.assign(every, { checked: chosen === boxes().length && chosen > 0, indeterminate: chosen > 0 && chosen < boxes().length });
  };
  if (every) {
    every.hidden = false;
    every.addEventListener("change", () => {
      for (const box of boxes()) box.checked = every.checked;
      show();
    });
  }
  form.addEventListener("click", (event) => {
    const at = boxes().indexOf(event.target);
    if (at < 0) return;
    if (event.shiftKey && last !== null) {
      for (const box of boxes().slice(Math.min(at, last), Math.max(at, last) + 1)) box.checked = event.target.checked;
    }
    last = at;
  });
  form.addEventListener("change", show);
  form.addEventListener("reset", () => setTimeout(show));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open], .menu[open]")) form.reset();
  });
  window.addEventListener("pageshow", show);
  show();
}
