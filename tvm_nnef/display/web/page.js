"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { tensors } = data;
  const byId = (id) => document.getElementById(id);

  // ---------------------------------------------------------------- the tree of composition

  // What the screen has room for, in boxes that can be read, decides what is closed at first.
  const view = byId("view");
  const rows = Math.max(8, Math.floor(view.clientHeight / 45));
  const room = Math.max(40, Math.floor((view.clientHeight * view.clientWidth) / 8000));
  const items = []; // Every node and port; its index is its id.

  function add(item, parent) {
    item.id = items.length;
    item.parent = parent;
    items.push(item);
    if (item.bodies) {
      item.bodies = item.bodies.filter((body) => body.nodes.length);
      if (!item.bodies.length) delete item.bodies;
    }
    for (const body of item.bodies || []) body.nodes = level(body.nodes, item);
    item.isTimed = item.seconds !== undefined;
    const times = (item.bodies || []).flatMap((body) => body.nodes.map((each) => each.seconds));
    const known = times.filter((each) => each !== undefined);
    if (!item.isTimed && known.length) item.seconds = known.reduce((a, b) => a + b);
    return item;
  }

  function level(nodes, parent) {
    if (nodes.length > room) {
      const groups = [];
      const size = Math.ceil(nodes.length / rows);
      for (let i = 0; i < nodes.length; i += size) groups.push(group(nodes.slice(i, i + size)));
      nodes = groups;
    }
    for (const each of nodes) add(each, parent);
    return nodes;
  }

  function group(nodes) {
    const results = new Set(nodes.flatMap((each) => each.results));
    const read = new Set(nodes.flatMap((each) => each.operands));
    const [first, last] = [nodes[0], nodes[nodes.length - 1]];
    return {
      isGroup: true, name: `${first.name} … ${last.name}`, label: `${first.label} … ${last.label}`,
      operator: `${nodes.length} ${nodes[0].isGroup ? "groups" : "operations"}`, attributes: "",
      operands: [...read].filter((each) => !results.has(each)), results: [...results],
      weights: [], source: [], decided: [], bodies: [{ title: "", nodes }], inner: [],
    };
  }

  const port = (kind) => (each) => add({
    ...each, isPort: true, kind, label: each.name, operator: kind, attributes: "", weights: [],
    operands: kind === "output" ? each.tensors : [],
    results: kind === "input" ? each.tensors : [], source: [],
  }, null);
  // What decides an open branch or loop is read by a box of its own in it.
  const decision = (item) => ({
    id: -1 - item.id, name: item.name, operator: item.operator === "if" ? "condition" : "count",
    label: "", attributes: "", weights: [], operands: item.decided, results: [],
    source: item.source,
  });
  const inputs = data.inputs.map(port("input"));
  const top = level(data.graph, null);
  const outputs = data.outputs.map(port("output"));
  const open = new Set();
  if (items.length <= room) {
    for (const each of items) if (each.own && each.bodies) open.add(each.id);
  }
  const slowest = Math.max(0, ...items.map((each) => (each.isTimed ? each.seconds : 0)));
  const allSeconds = top.reduce((sum, each) => sum + (each.seconds || 0), 0);

  // ---------------------------------------------------------------- texts

  const NAMESPACE = "http://www.w3.org/2000/svg";
  function draw(tag, attributes, parent, text) {
    const made = document.createElementNS(NAMESPACE, tag);
    for (const name in attributes) made.setAttribute(name, attributes[name]);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }
  function html(tag, parent, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    parent.append(made);
    return made;
  }
  const pen = document.createElement("canvas").getContext("2d");
  const family = getComputedStyle(document.body).fontFamily;
  function width(text, size, weight = 400) {
    pen.font = `${weight} ${size}px ${family}`;
    return pen.measureText(text).width;
  }
  const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
  const inGraph = (name) => (name.startsWith(`${data.name}.`) ? name.slice(data.name.length + 1) : name);
  const short = (name) => name.slice(name.lastIndexOf(".") + 1);
  const shape = (type) => type.slice(type.indexOf("["));
  const number = (value) => value.toLocaleString("en-US");
  function time(seconds) {
    const [factor, unit] = seconds >= 1 ? [1, "s"] : seconds >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
    return `${(seconds * factor).toPrecision(3)} ${unit}`;
  }
  const share = (seconds) => (allSeconds ? ` · ${((100 * seconds) / allSeconds).toFixed(1)} %` : "");

  function lines(item) {
    const found = [{ text: cut(item.operator, 44), kind: "operator", size: 13, weight: 600 }];
    const small = (text) => found.push({ text: cut(text, 48), kind: "small", size: 11 });
    if (item.isPort) found[0].text = cut(item.label, 44);
    else if (item.label) found.push({ text: cut(item.label, 44), kind: "label", size: 12 });
    if (item.origin) small(item.origin);
    if (item.isPort) for (const each of item.tensors.slice(0, 3)) small(tensors[each].type);
    if (item.attributes) small(item.attributes.slice(1, -1));
    for (const each of item.weights.slice(0, 3)) {
      const { name, type, statistics } = tensors[each];
      const value = statistics && statistics.value;
      small(`${short(name)} ${value === undefined ? shape(type) : `= ${value}`}`);
    }
    if (item.weights.length > 3) small(`and ${item.weights.length - 3} more`);
    if (item.seconds !== undefined) small(time(item.seconds) + share(item.seconds));
    return found;
  }

  // ---------------------------------------------------------------- layout

  function visible() {
    const producers = new Map();
    const aliases = new Map();
    const leaves = [];
    const clusters = [];
    function visit(item, cluster) {
      if (item.bodies && open.has(item.id)) {
        const own = { key: `c${item.id}`, item, cluster, title: `${item.operator}  ${item.label}` };
        clusters.push(own);
        for (const [outer, inner] of item.inner) if (inner.length) aliases.set(outer, inner);
        if (item.decided.length) leaves.push({ key: `d${item.id}`, item: decision(item), cluster: own });
        item.bodies.forEach((body, i) => {
          let around = own;
          if (body.title) {
            own.hasArms = true;
            around = { key: `c${item.id}.${i}`, item, cluster: own, title: body.title, isArm: true };
            clusters.push(around);
          }
          for (const each of body.nodes) visit(each, around);
        });
      } else {
        leaves.push({ key: `n${item.id}`, item, cluster });
        for (const each of item.results) producers.set(each, `n${item.id}`);
      }
    }
    for (const each of [...inputs, ...top, ...outputs]) visit(each, null);

    function sources(tensor, seen = new Set()) {
      if (producers.has(tensor)) return [producers.get(tensor)];
      if (seen.has(tensor)) return [];
      seen.add(tensor);
      return (aliases.get(tensor) || []).flatMap((each) => sources(each, seen));
    }
    const edges = new Map();
    for (const leaf of leaves) {
      for (const tensor of leaf.item.operands) {
        for (const source of sources(tensor)) {
          const key = `${source} ${leaf.key} ${tensor}`;
          if (source !== leaf.key) edges.set(key, { source, target: leaf.key, tensor });
        }
      }
    }
    return { leaves, clusters, edges: [...edges.values()] };
  }

  function laidOut({ leaves, clusters, edges }) {
    const graph = new dagre.graphlib.Graph({ compound: true, multigraph: true });
    graph.setGraph({
      rankdir: "TB", nodesep: 24, edgesep: 16, ranksep: 22, marginx: 24, marginy: 24,
      ranker: leaves.length > 300 ? "tight-tree" : "network-simplex",
    });
    for (const each of clusters) graph.setNode(each.key, {});
    for (const each of leaves) {
      each.lines = lines(each.item);
      const widths = each.lines.map((line) => width(line.text, line.size, line.weight));
      const room = each.item.bodies ? 26 : 0;
      graph.setNode(each.key, {
        width: Math.max(60, widths[0] + room, ...widths) + 28,
        height: each.lines.reduce((sum, line) => sum + line.size + 4, 11),
      });
    }
    for (const each of [...clusters, ...leaves]) {
      if (each.cluster) graph.setParent(each.key, each.cluster.key);
    }
    for (const each of edges) {
      each.label = cut(tensors[each.tensor].type, 40);
      graph.setEdge(each.source, each.target, {
        width: width(each.label, 10.5) + 8, height: 14, labelpos: "r", labeloffset: 2,
      }, String(each.tensor));
    }
    dagre.layout(graph);
    for (const each of [...clusters, ...leaves]) each.box = graph.node(each.key);
    const rows = new Map(); // The height of each row of boxes, by its middle.
    for (const { box } of leaves) {
      const row = Math.round(box.y);
      rows.set(row, Math.max(rows.get(row) || 0, box.height));
    }
    for (const each of edges) {
      const found = graph.edge(each.source, each.target, String(each.tensor));
      each.points = route(found.points, graph.node(each.source), graph.node(each.target), rows);
      each.at = found;
    }
    return { leaves, clusters, edges };
  }

  // A row of boxes is passed vertically, and slants are between rows: so no edge crosses a box.
  function route(points, source, target, rows) {
    const inside = (x, box) => {
      const margin = Math.min(12, box.width / 2);
      return Math.max(box.x - box.width / 2 + margin, Math.min(box.x + box.width / 2 - margin, x));
    };
    const half = (y) => (rows.get(Math.round(y)) || 0) / 2;
    const start = inside(points[0].x, source);
    const end = inside(points[points.length - 1].x, target);
    const found = [[start, source.y + source.height / 2], [start, source.y + half(source.y)]];
    for (const { x, y } of points.slice(1, -1)) {
      if (half(y)) found.push([x, y - half(y)], [x, y + half(y)]);
      else found.push([x, y]);
    }
    found.push([end, target.y - half(target.y)], [end, target.y - target.height / 2]);
    return found.filter(([x, y], i) => !i || x !== found[i - 1][0] || y !== found[i - 1][1]);
  }

  function path(points) {
    const parts = [`M${points[0]}`];
    for (let i = 1; i < points.length - 1; i++) {
      const [before, at, after] = [points[i - 1], points[i], points[i + 1]];
      const toward = (other) => {
        const distance = Math.hypot(other[0] - at[0], other[1] - at[1]);
        const step = Math.min(10, distance / 2) / (distance || 1);
        return [at[0] + (other[0] - at[0]) * step, at[1] + (other[1] - at[1]) * step];
      };
      parts.push(`L${toward(before)}Q${at} ${toward(after)}`);
    }
    return `${parts.join("")}L${points[points.length - 1]}`;
  }

  // ---------------------------------------------------------------- drawing

  const world = byId("world");
  let picture;
  let selected = null;
  let elements = new Map();

  function render() {
    picture = laidOut(visible());
    elements = new Map();
    for (const id of ["clusters", "edges", "nodes"]) byId(id).replaceChildren();
    for (const each of picture.clusters) drawCluster(each);
    for (const each of picture.edges) drawEdge(each);
    for (const each of picture.leaves) drawNode(each);
    drawMap();
    mark();
  }

  // The colour of a title, by what kind of operation it is.
  const KINDS = [
    [/^(nn\.(linear|.*conv)|linalg\.|layer\.)/, "product"], [/^nn\..*pool/, "pool"],
    [/^nn\..*norm/, "norm"], [/^nn\./, "activation"], [/^layout\./, "layout"],
    [/^math\./, "math"], [/^(if|loop)$/, "control"],
  ];
  function kindOf(item) {
    if (item.isPort) return "port";
    const found = KINDS.find(([pattern]) => pattern.test(item.operator));
    return found ? found[1] : item.bodies ? "own" : "other";
  }

  function toggle(item, parent, x, y, sign) {
    const button = draw("g", { class: "toggle", transform: `translate(${x} ${y})` }, parent);
    draw("rect", { x: -8, y: -8, width: 16, height: 16 }, button);
    draw("text", { y: 4.5 }, button, sign);
    draw("title", {}, button, sign === "+" ? "Open" : "Close");
    button.addEventListener("click", (event) => { event.stopPropagation(); flip(item); });
  }

  function drawCluster({ item, box, title, isArm, hasArms }) {
    const made = draw("g", { class: isArm ? "cluster arm" : "cluster" }, byId("clusters"));
    const head = hasArms ? 28 : 12; // For the title, above what dagre makes room for.
    const [x, y] = [box.x - box.width / 2, box.y - box.height / 2 - head];
    draw("rect", { class: "frame", x, y, width: box.width, height: box.height + head }, made);
    const left = x + (isArm ? 8 : 26);
    const room = Math.max(4, Math.floor((box.width - 34) / 7));
    draw("text", { class: "title", x: left, y: y + 16 }, made, cut(title, room));
    if (!isArm) {
      made.dataset.name = item.name;
      toggle(item, made, x + 13, y + 12, "−");
      elements.set(item.id, { made, box });
      made.addEventListener("click", () => select(item));
    }
  }

  function drawNode({ item, box, lines: texts }) {
    const kinds = ["node", kindOf(item)];
    if (item.change) kinds.push(item.change.change);
    if (slowest && item.seconds) kinds.push("timed");
    const made = draw("g", {
      class: kinds.join(" "), tabindex: 0, role: "button",
      transform: `translate(${box.x - box.width / 2} ${box.y - box.height / 2})`,
    }, byId("nodes"));
    made.dataset.name = item.name;
    if (item.seconds) made.style.setProperty("--heat", Math.min(1, item.seconds / slowest || 0));
    draw("rect", { class: "box", width: box.width, height: box.height }, made);
    const corner = Math.min(7, box.width / 2);
    const head = Math.min(24, box.height);
    draw("path", {
      class: "head",
      d: `M0 ${head}V${corner}Q0 0 ${corner} 0H${box.width - corner}Q${box.width} 0 ${box.width} ${corner}V${head}Z`,
    }, made);
    let y = 4;
    for (const line of texts) {
      y += line.size + 4;
      draw("text", { class: line.kind, x: 12, y: y - 3 }, made, line.text);
      if (line.kind === "operator") y += 3;
    }
    draw("title", {}, made, `${item.operator}\n${item.name}`);
    if (item.bodies) toggle(item, made, box.width - 14, 14, "+");
    made.addEventListener("click", () => select(item));
    made.addEventListener("dblclick", () => { if (item.bodies) flip(item); });
    made.addEventListener("keydown", (event) => {
      if (event.key === "Enter") select(item);
    });
    elements.set(item.id, { made, box });
  }

  function drawEdge(edge) {
    edge.made = draw("g", { class: "edge" }, byId("edges"));
    edge.made.dataset.tensor = tensors[edge.tensor].name;
    draw("path", { d: path(edge.points) }, edge.made);
    draw("text", { x: edge.at.x, y: edge.at.y + 3.5 }, edge.made, edge.label);
    draw("title", {}, edge.made, `${tensors[edge.tensor].name}: ${tensors[edge.tensor].type}`);
  }

  function mark() {
    const key = selected && `n${selected.id}`;
    for (const [id, { made }] of elements) {
      made.classList.toggle("selected", Boolean(selected) && selected.id === id);
    }
    for (const each of picture.edges) {
      each.made.classList.toggle("near", each.source === key || each.target === key);
    }
  }

  // ---------------------------------------------------------------- moving

  const place = { x: 0, y: 0, k: 1 };
  function apply() {
    world.setAttribute("transform", `translate(${place.x} ${place.y}) scale(${place.k})`);
    const seen = byId("seen");
    const [x, y] = [-place.x / place.k, -place.y / place.k];
    const [wide, high] = [view.clientWidth / place.k, view.clientHeight / place.k];
    for (const [name, value] of Object.entries({ x, y, width: wide, height: high })) {
      seen.setAttribute(name, value);
    }
    const { left, right, top: above, bottom } = bounds();
    const isWhole = x <= left && y <= above && x + wide >= right && y + high >= bottom;
    byId("map").classList.toggle("whole", isWhole);
  }
  function drawMap() {
    const map = byId("map");
    const { left, right, top: above, bottom } = bounds();
    map.setAttribute("viewBox", `${left} ${above} ${right - left} ${bottom - above}`);
    const boxes = byId("boxes");
    boxes.replaceChildren();
    for (const { item, box } of picture.leaves) {
      draw("rect", {
        class: kindOf(item), x: box.x - box.width / 2, y: box.y - box.height / 2,
        width: box.width, height: box.height,
      }, boxes);
    }
  }
  function moveTo(event) {
    if (event.buttons !== 1) return;
    const map = byId("map");
    const { x, y } = new DOMPoint(event.clientX, event.clientY)
      .matrixTransform(map.getScreenCTM().inverse());
    place.x = view.clientWidth / 2 - x * place.k;
    place.y = view.clientHeight / 2 - y * place.k;
    apply();
  }
  byId("map").addEventListener("pointerdown", moveTo);
  byId("map").addEventListener("pointermove", moveTo);
  function zoom(factor, x = view.clientWidth / 2, y = view.clientHeight / 2) {
    const k = Math.max(0.02, Math.min(4, place.k * factor));
    place.x = x - ((x - place.x) * k) / place.k;
    place.y = y - ((y - place.y) * k) / place.k;
    place.k = k;
    apply();
  }
  function bounds() {
    const all = [...picture.leaves, ...picture.clusters].map(({ box }) => box);
    const edge = (pick) => all.map(pick);
    return {
      left: Math.min(0, ...edge((box) => box.x - box.width / 2)),
      right: Math.max(1, ...edge((box) => box.x + box.width / 2)),
      top: Math.min(0, ...edge((box) => box.y - box.height / 2)),
      bottom: Math.max(1, ...edge((box) => box.y + box.height / 2)),
    };
  }
  function fit() {
    const { left, right, top: above, bottom } = bounds();
    const scales = [view.clientWidth / (right - left + 40), view.clientHeight / (bottom - above + 40)];
    place.k = Math.min(1, ...scales);
    place.x = (view.clientWidth - (left + right) * place.k) / 2;
    const free = view.clientHeight - (bottom - above) * place.k;
    place.y = free > 0 ? free / 2 - above * place.k : 12;
    apply();
  }
  function begin() {
    fit();
    if (place.k >= 0.4) return;
    // A large graph begins with its first input, in a size that can be read.
    const { box } = elements.get((inputs[0] || top[0] || outputs[0]).id);
    place.k = 0.8;
    place.x = view.clientWidth / 2 - box.x * place.k;
    place.y = 24 - (box.y - box.height / 2) * place.k;
    apply();
  }
  function center(box) {
    place.k = Math.max(place.k, 0.7);
    place.x = view.clientWidth / 2 - box.x * place.k;
    place.y = view.clientHeight / 2 - box.y * place.k;
    apply();
  }

  view.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = view.getBoundingClientRect();
    const step = event.deltaMode === 1 ? 30 : 1;
    zoom(Math.exp(-event.deltaY * step * 0.0015), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  let drag = null;
  view.addEventListener("pointerdown", (event) => {
    if (event.button === 0) drag = { x: event.clientX, y: event.clientY, moved: false };
  });
  view.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [x, y] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(x, y) < 4) return;
    if (!drag.moved) view.setPointerCapture(event.pointerId);
    place.x += x;
    place.y += y;
    drag = { x: event.clientX, y: event.clientY, moved: true };
    view.classList.add("dragged");
    apply();
  });
  let justDragged = false;
  const drop = () => {
    justDragged = Boolean(drag && drag.moved);
    drag = null;
    view.classList.remove("dragged");
  };
  view.addEventListener("pointerup", drop);
  view.addEventListener("pointercancel", drop);
  view.addEventListener("click", (event) => {
    if (!justDragged && (event.target === view || event.target === world)) select(null);
  });

  // ---------------------------------------------------------------- opening and closing

  function flip(item) {
    const before = elements.get(item.id);
    if (open.has(item.id)) open.delete(item.id);
    else open.add(item.id);
    const upper = (box) => [box.x, box.y - box.height / 2];
    const old = before ? upper(before.box) : [0, 0];
    render();
    const after = elements.get(item.id);
    if (before && after) {
      const now = upper(after.box);
      place.x += (old[0] - now[0]) * place.k;
      place.y += (old[1] - now[1]) * place.k;
    }
    apply();
  }
  function flipAll(opened) {
    open.clear();
    // Too many boxes would keep the browser busy for long.
    let left = 600;
    if (opened) {
      for (const each of items) {
        const inner = (each.bodies || []).reduce((sum, body) => sum + body.nodes.length, 0);
        if (inner && inner <= left && (!each.parent || open.has(each.parent.id))) {
          open.add(each.id);
          left -= inner;
        }
      }
    }
    render();
    begin();
  }
  function reveal(item) {
    let changed = false;
    for (let each = item.parent; each; each = each.parent) {
      changed = changed || !open.has(each.id);
      open.add(each.id);
    }
    if (changed) render();
    select(item);
    center(elements.get(item.id).box);
  }

  // ---------------------------------------------------------------- details

  const details = byId("details");
  function pairs(parent, entries) {
    const list = html("dl", parent);
    for (const [name, value] of entries) {
      html("dt", list, name);
      html("dd", list, String(value));
    }
  }
  function tensor(parent, id, named = true) {
    const { name, type, statistics } = tensors[id];
    const made = html("div", parent, undefined, "tensor");
    if (named) html("div", made, inGraph(name)).title = name;
    html("code", made, type);
    const entries = Object.entries(statistics || {});
    if (entries.length) pairs(made, entries);
  }
  function section(title, ids) {
    if (!ids.length) return;
    html("h3", details, title);
    for (const each of ids.slice(0, 50)) tensor(details, each);
    if (ids.length > 50) html("p", details, `and ${ids.length - 50} more`, "muted");
  }

  function describe(item) {
    html("h2", details, item.isPort ? item.label : item.operator);
    html("p", details, item.isPort ? item.kind : inGraph(item.name), "muted").title = item.name;
    const facts = [];
    if (item.origin) facts.push(["source", item.origin]);
    if (item.parameters) facts.push(["parameters", number(item.parameters)]);
    if (item.multiplyAdds && item.multiplyAdds !== "0") {
      facts.push(["multiply-adds", item.multiplyAdds]);
    }
    if (item.seconds !== undefined) facts.push(["time", time(item.seconds) + share(item.seconds)]);
    if (facts.length) pairs(details, facts);
    if (item.bodies) {
      const button = html("button", details, open.has(item.id) ? "Close" : "Open");
      button.addEventListener("click", () => { flip(item); select(item); });
    }
    if (item.change) {
      html("h3", details, item.change.change);
      for (const each of item.change.details) html("p", details, each);
    }
    if ((item.table || []).length) {
      html("h3", details, "Attributes");
      pairs(details, item.table);
    }
    section(item.isPort ? "Tensors" : "Inputs", item.isPort ? item.tensors : item.operands);
    section("Weights and constants", item.weights);
    if (!item.isPort) section("Results", item.results);
    const places = [...item.source].reverse();
    places.forEach((each, i) => {
      html("h3", details, i ? "Invoked by" : "Source");
      html("p", details, `${each.file}:${each.line}`, "muted");
      html("pre", details, each.text);
    });
    if (item.formula) {
      html("h3", details, "Formula");
      html("pre", details, item.formula);
    }
  }

  function link(parent, item) {
    const made = html("a", parent, `${item.operator} ${item.label}`);
    made.href = address(item);
    made.addEventListener("click", (event) => { event.preventDefault(); reveal(item); });
  }
  function changes({ operations, ports, same }) {
    html("h3", details, "Changes");
    for (const each of ports) html("p", details, each);
    const changed = new Map(items.filter((each) => each.change).map((each) => [inGraph(each.name), each]));
    for (const each of operations) {
      const row = html("p", details, `${{ added: "+", gone: "−", changed: "~" }[each.change]} `, each.change);
      const item = each.change !== "gone" && changed.get(each.name);
      if (item) link(row, item);
      else row.append(`${each.operator} ${each.name}`);
    }
    html("p", details, `${number(same)} unchanged`, "muted");
  }
  function overview() {
    html("h2", details, data.name);
    html("p", details, data.signature, "muted");
    html("h3", details, "Totals");
    pairs(details, Object.entries(data.totals));
    if (Object.keys(data.bounds).length) {
      html("h3", details, "Dynamic dimensions");
      pairs(details, Object.entries(data.bounds).map(([name, most]) => [name, `at most ${most}`]));
    }
    if (data.difference) changes(data.difference);
    if (!slowest) return;
    html("h3", details, "Slowest operations");
    const timed = items.filter((each) => each.isTimed && each.seconds);
    for (const each of timed.sort((a, b) => b.seconds - a.seconds).slice(0, 15)) {
      const row = html("p", details, `${time(each.seconds)}${share(each.seconds)}  `);
      link(row, each);
    }
  }

  function select(item) {
    selected = item;
    details.replaceChildren();
    details.scrollTop = 0;
    if (item) describe(item);
    else overview();
    history.replaceState(null, "", item ? address(item) : location.pathname + location.search);
    mark();
  }

  // ---------------------------------------------------------------- links to operations

  const address = (item) => `#${encodeURIComponent(inGraph(item.name))}`;
  function follow() {
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { return false; }
    const found = name && items.find((each) => !each.isGroup && [inGraph(each.name), each.name].includes(name));
    if (found) reveal(found);
    return Boolean(found);
  }
  window.addEventListener("hashchange", follow);

  // ---------------------------------------------------------------- export

  function picturedAlone() {
    const { left, right, top: above, bottom } = bounds();
    const [wide, high] = [right - left + 24, bottom - above + 24];
    const box = { x: left - 12, y: above - 12, width: wide, height: high };
    const made = draw("svg", { xmlns: NAMESPACE, width: wide, height: high,
      viewBox: `${box.x} ${box.y} ${wide} ${high}`, "font-family": family }, document.createElement("div"));
    draw("style", {}, made, document.querySelector("style").textContent);
    draw("rect", { ...box, style: "fill: var(--back)" }, made);
    const copy = world.cloneNode(true);
    copy.removeAttribute("transform");
    made.append(view.querySelector("defs").cloneNode(true), copy);
    return { text: new XMLSerializer().serializeToString(made), wide, high };
  }
  function download(blob, suffix) {
    const made = document.createElement("a");
    made.href = URL.createObjectURL(blob);
    made.download = `${data.name}.${suffix}`;
    made.click();
    setTimeout(() => URL.revokeObjectURL(made.href), 1000);
  }
  function exportSvg() {
    download(new Blob([picturedAlone().text], { type: "image/svg+xml" }), "svg");
  }
  function exportPng() {
    const { text, wide, high } = picturedAlone();
    const scale = Math.min(2, 16000 / Math.max(wide, high)); // Browsers limit the size of a canvas.
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [Math.ceil(wide * scale), Math.ceil(high * scale)];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => download(blob, "png"));
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  }

  // ---------------------------------------------------------------- the width of the panel

  const divider = byId("divider");
  function widen(to) {
    details.style.width = `${Math.max(180, Math.min(innerWidth - 200, to))}px`;
  }
  divider.addEventListener("pointerdown", (event) => divider.setPointerCapture(event.pointerId));
  divider.addEventListener("pointermove", (event) => {
    if (event.buttons === 1) widen(innerWidth - event.clientX);
  });
  divider.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: 40, ArrowRight: -40 }[event.key];
    if (step) widen(details.offsetWidth + step);
  });
  new ResizeObserver(() => { if (picture) apply(); }).observe(view);

  // ---------------------------------------------------------------- search

  const search = byId("search");
  const found = byId("found");
  let chosen = 0;
  const searched = items.filter((each) => !each.isGroup).map((item) => ({
    item,
    text: [item.name, item.operator, item.origin || "", ...[...item.weights, ...item.results].map((each) => tensors[each].name)]
      .join("\n").toLowerCase(),
  }));

  function matches() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    return searched.filter(({ text }) => words.every((word) => text.includes(word)))
      .map(({ item }) => item);
  }
  function list() {
    const all = matches();
    chosen = Math.max(0, Math.min(chosen, Math.min(all.length, 50) - 1));
    found.replaceChildren();
    found.hidden = !search.value.trim();
    all.slice(0, 50).forEach((item, i) => {
      const row = html("li", found, item.label, i === chosen ? "chosen" : "");
      html("small", row, ` ${item.operator}`);
      row.addEventListener("mousedown", (event) => { event.preventDefault(); go(item); });
      if (i === chosen) row.scrollIntoView({ block: "nearest" });
    });
    if (all.length > 50) html("li", found, `${number(all.length - 50)} more`);
    if (!all.length) html("li", found, "nothing found");
  }
  function go(item) {
    found.hidden = true;
    reveal(item);
  }
  search.addEventListener("input", () => { chosen = 0; list(); });
  search.addEventListener("focus", list);
  search.addEventListener("blur", () => { found.hidden = true; });
  search.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      chosen += step;
      list();
    } else if (event.key === "Enter") {
      const item = matches()[chosen];
      if (item) go(item);
    } else if (event.key === "Escape") {
      search.value = "";
      search.blur();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = {
      "/": () => search.focus(), f: () => fit(), "+": () => zoom(1.25), "-": () => zoom(0.8),
      Escape: () => select(null),
    }[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });

  byId("fit").addEventListener("click", () => fit());
  byId("in").addEventListener("click", () => zoom(1.25));
  byId("out").addEventListener("click", () => zoom(0.8));
  byId("svg").addEventListener("click", exportSvg);
  byId("png").addEventListener("click", exportPng);
  byId("expand").addEventListener("click", () => flipAll(true));
  byId("collapse").addEventListener("click", () => flipAll(false));
  for (const id of ["expand", "collapse"]) byId(id).hidden = !items.some((each) => each.bodies);
  document.querySelector("h1").textContent = data.name;

  render();
  begin();
  if (!follow()) select(null);
})();
