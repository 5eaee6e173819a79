// Completions of the manifest editor: component types, actions, components, pins, pin types, and keys.

function indentOf(line) {
  return line.search(/\S|$/);
}

// Returns the components of a text with their pins and lines, by indentation: while you type, it is rarely valid YAML.
export function componentsOf(text) {
  const found = new Map();
  const open = [];
  for (const [number, line] of text.split("\n").entries()) {
    const entry = /^\s*(?:- )?["']?([\w.*-]+)["']?\s*:\s*(.*)$/.exec(line);
    if (!entry || line.trimStart().startsWith("#")) continue;
    const indent = indentOf(line);
    while (open.length && open.at(-1).indent >= indent) open.pop();
    const path = open.map((each) => each.name);
    const depth = path.lastIndexOf("components");
    const interfaceDepth = path.lastIndexOf("interfaces");
    if (depth >= 0 && depth === path.length - 1) {
      found.set(entry[1], found.get(entry[1]) || { pins: [], line: number + 1 });
    } else if (depth >= 0 && interfaceDepth === depth + 2) {
      const pins = found.get(path[depth + 1])?.pins;
      if (pins && interfaceDepth === path.length - 2) pins.push(`${path[interfaceDepth + 1]}.${entry[1]}`);
      if (pins && interfaceDepth === path.length - 1) {
        for (const [, pin] of entry[2].matchAll(/[{,]\s*["']?([\w.*-]+)["']?\s*:/g)) pins.push(`${entry[1]}.${pin}`);
      }
    }
    open.push({ indent, name: entry[1] });
  }
  return found;
}

function options(names, type, detail) {
  return names.map((label) => ({ label, type, detail }));
}

export function completionSource(completions) {
  return (context) => {
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    const word = /[\w.*#-]*$/.exec(before)[0];
    const from = context.pos - word.length;
    const text = context.state.doc.toString();
    const offer = (list) => ({ from, options: list, validFor: /^[\w.*#-]*$/ });
    if (completions.permissions) {
      const path = /[\[,]\s*(\/?[\w/*]*)$/.exec(before);
      if (path) return { from: context.pos - path[1].length, options: options(completions.paths, "type", "path") };
      return /^\s*(- )?\w*$/.test(before) && (word || context.explicit) ? offer(options(completions.permissions, "keyword", "permission")) : null;
    }
    if (/(^|[\s{,])type\s*:\s*["']?[\w.]*$/.test(before)) return offer(options(completions.types, "class", "component type"));
    if (/(^|[\s{,])action\s*:\s*["']?[\w.-]*$/.test(before)) {
      const macros = [...text.matchAll(/^\s+["']?(\.[\w-]+)["']?\s*:/gm)].map((each) => each[1]);
      return offer([...options(completions.actions, "function", "action"), ...options([...new Set(macros)], "method", "macro")]);
    }
    if (/bind\([^)]*$/.test(before) || /(^|[\s[,])-\s*\[[^\]]*$/.test(before)) {
      const list = [];
      for (const [name, { pins }] of componentsOf(text)) {
        list.push({ label: name, type: "namespace", detail: "component" });
        if (/bind\(/.test(before)) for (const pin of pins) list.push({ label: `${name}#${pin}`, type: "property", detail: "pin" });
      }
      return offer(list);
    }
    if (/:\s+["']?[\w-]*$/.test(before) && /interfaces/.test(text)) {
      if (word || context.explicit) return offer(options(completions.pinTypes, "type", "pin type"));
      return null;
    }
    if (/^\s*(?:- )?[\w.-]*$/.test(before) && (word || context.explicit)) return offer(options(completions.keys, "keyword", ""));
    return null;
  };
}
