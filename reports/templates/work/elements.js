  // Elements, made from names and texts: nothing that comes from a run is ever read as markup.
  const SVG = new DOMParser().parseFromString("<svg></svg>", "text/html").querySelector("svg").namespaceURI;
  const byId = (id) => document.getElementById(id);

  function drawn(name, attributes, parent, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  }

  function made(name, attributes, ...content) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...content);
    return element;
  }

  function dataOf(id) {
    const holder = byId(id);
    return holder ? JSON.parse(holder.textContent) : null;
  }

  const plural = (number, noun, nouns) => `${number.toLocaleString("en")} ${number === 1 ? noun : nouns || `${noun}s`}`;
  const shortened = (text, length) => (text.length > length ? `${text.slice(0, Math.max(1, length - 1))}…` : text);
