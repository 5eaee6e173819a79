// The editor is large: it comes when somebody goes to the field of a page that is more than an editor.
document.addEventListener("focusin", ({ target }) => {
  const address = target.closest("[data-editor][data-script]")?.dataset.script;
  if (!address) return;
  for (const host of document.querySelectorAll("[data-script]")) host.removeAttribute("data-script");
  document.head.append(Object.assign(document.createElement("script"), { src: address }));
});
