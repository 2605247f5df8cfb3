"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const number = (v) => (v === null ? NaN : v === "inf" ? Infinity : v);
  for (const table of ["logloss", "brier", "seconds"]) data[table] = data[table].map((column) => column.map(number));
  const NONE = data.methods.findIndex((m) => m.method === "none");

  const mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : NaN);
  const known = (values) => values.filter((v) => !Number.isNaN(v));
  const median = (values) => {
    if (!values.length) return NaN;
    const s = [...values].sort((a, b) => a - b), i = (s.length - 1) / 2;
    return (s[Math.floor(i)] + s[Math.ceil(i)]) / 2;
  };
  const groupBy = (rows, key) => {
    const groups = new Map();
    for (const row of rows) {
      const k = key(row);
      if (!groups.has(k)) groups.set(k, []);
      groups.get(k).push(row);
    }
    return [...groups.values()];
  };

  // Ties share their mean rank, as in the tables.
  function ranks(values) {
    return values.map((v) => 1 + values.filter((w) => w < v).length + (values.filter((w) => w === v).length - 1) / 2);
  }

  // As in `calibrant.bench.study.statistics`, against which a test compares: methods that finished no dataset have no
  // rank, and the others are ranked on the datasets that all of them finished, by means of ten digits.
  function compare(rows, methods, metric) {
    const loss = data[metric];
    const datasets = groupBy(rows, (row) => data.dataset[row]);
    const finished = (m, group) => group.every((row) => !Number.isNaN(loss[m][row]));
    const ranked = methods.filter((m) => datasets.some((group) => finished(m, group)));
    const complete = datasets.filter((group) => ranked.every((m) => finished(m, group)));
    const perDataset = complete.map((group) => ranks(ranked.map((m) => Number(mean(group.map((row) => loss[m][row])).toPrecision(10)))));
    const rank = (m) => (ranked.includes(m) ? mean(perDataset.map((r) => r[ranked.indexOf(m)])) : NaN);
    const change = (m, row) => (loss[m][row] === loss[NONE][row] ? 0 : loss[m][row] - loss[NONE][row]);
    const relative = (m, row) => (loss[m][row] === loss[NONE][row] ? 0 : loss[m][row] / loss[NONE][row] - 1);
    const duel = (a, b) => mean(known(datasets.map((group) => mean(known(group.map((row) => {
      const x = loss[a][row], y = loss[b][row];
      return Number.isNaN(x) || Number.isNaN(y) ? NaN : x < y ? 1 : x === y ? 0.5 : 0;
    }))))));
    return {
      complete: complete.length,
      datasets: datasets.length,
      of: methods.map((m) => ({
        rank: rank(m),
        change: mean(known(rows.map((row) => change(m, row)))),
        relative: median(known(datasets.map((group) => mean(known(group.map((row) => relative(m, row))))))),
        wins: mean(known(methods.filter((o) => o !== m).map((o) => duel(m, o)))),
      })),
    };
  }

  const four = (v) => v.toFixed(4).replace(/^-(0\.0+)$/, "$1");
  const percent = (digits) => (v) => (100 * v).toFixed(digits).replace(/^-(0\.0+)$/, "$1") + " %";
  const COLUMNS = [
    { key: "method", tip: "Name of the method in calibrant.", label: "method" },
    { key: "family", tip: "What kind of method it is.", label: "family" },
    { key: "rankLogloss", tip: "Average rank by log loss over the datasets that all methods finished: 1 is best everywhere.", label: "rank\nlog loss", show: (v) => v.toFixed(2), best: Math.min },
    { key: "rankBrier", tip: "Average rank by Brier score over the datasets that all methods finished: 1 is best everywhere.", label: "rank\nBrier", show: (v) => v.toFixed(2), best: Math.min },
    { key: "logloss", tip: "Mean change of log loss against the unchanged predictions; negative is better.", label: "change\nlog loss", show: four, best: Math.min },
    { key: "brier", tip: "Mean change of the Brier score against the unchanged predictions; negative is better.", label: "change\nBrier", show: four, best: Math.min },
    { key: "relativeLogloss", tip: "Median over datasets of the relative change of log loss; negative is better.", label: "relative\nlog loss", show: percent(2), best: Math.min },
    { key: "relativeBrier", tip: "Median over datasets of the relative change of the Brier score; negative is better.", label: "relative\nBrier", show: percent(2), best: Math.min },
    { key: "winsLogloss", tip: "Share of duels with the other methods won by log loss, averaged by dataset; ties count half.", label: "wins\nlog loss", show: percent(1), best: Math.max, down: true },
    { key: "winsBrier", tip: "Share of duels with the other methods won by Brier score, averaged by dataset; ties count half.", label: "wins\nBrier", show: percent(1), best: Math.max, down: true },
    { key: "seconds", tip: "Mean seconds to fit, per 1000 calibration rows.", label: "s / 1000\nrows", show: four, best: Math.min },
    { key: "finished", tip: "Experiments that the method finished.", label: "experi-\nments", show: (v) => String(v), down: true },
  ];
  const shown = (column, v) => {
    if (!column.show) return v;
    if (Number.isNaN(v)) return "–";
    return Number.isFinite(v) ? column.show(v) : v > 0 ? "∞" : "−∞";
  };

  const byId = (id) => document.getElementById(id);
  const sort = { key: "rankLogloss", descending: false };

  function selection() {
    const pick = (id) => (!byId(id) || byId(id).value === "" ? null : Number(byId(id).value));
    const benchmark = pick("benchmark"), model = pick("model"), dataset = pick("dataset"), from = pick("classes-from"), to = pick("classes-to");
    const draw = pick("draw"), gains = data.harm.includes(false);
    const rows = data.dataset.map((_, row) => row).filter((row) =>
      // Harm, measured with drawn labels, is not averaged with gains.
      (benchmark === null ? !(gains && data.harm[row]) : data.benchmark[row] === benchmark) &&
      (draw === null || data.draw[row] === draw) &&
      (model === null || data.model[row] === model) &&
      (dataset === null || data.dataset[row] === dataset) &&
      (from === null || data.classes[row] >= from) &&
      (to === null || data.classes[row] <= to));
    const methods = [...document.querySelectorAll("input[name=method]:checked")].map((box) => Number(box.value));
    return { rows, methods };
  }

  function board({ rows, methods }) {
    const byLogloss = compare(rows, methods, "logloss"), byBrier = compare(rows, methods, "brier");
    const records = methods.map((m, i) => {
      const pairs = groupBy(rows, (row) => data.dataset[row] + "/" + data.model[row]);
      return {
        method: data.methods[m].method,
        family: data.methods[m].family,
        colour: data.methods[m].colour,
        rankLogloss: byLogloss.of[i].rank,
        rankBrier: byBrier.of[i].rank,
        logloss: byLogloss.of[i].change,
        brier: byBrier.of[i].change,
        relativeLogloss: byLogloss.of[i].relative,
        relativeBrier: byBrier.of[i].relative,
        winsLogloss: byLogloss.of[i].wins,
        winsBrier: byBrier.of[i].wins,
        seconds: m === NONE ? NaN : mean(known(pairs.map((pair) => mean(known(pair.map((row) => data.seconds[m][row])))))),
        finished: rows.filter((row) => !Number.isNaN(data.logloss[m][row])).length,
      };
    });
    return { records, summary: byLogloss };
  }

  function ordered(records) {
    const sign = sort.descending ? -1 : 1;
    return [...records].sort((a, b) => {
      const x = a[sort.key], y = b[sort.key];
      if (typeof x === "string") return sign * x.localeCompare(y);
      // What is missing comes last in either direction.
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return x === y ? 0 : sign * (x < y ? -1 : 1);
    });
  }

  // A search hides rows; what is ranked and compared is what the boxes say.
  function visible(records) {
    const wanted = byId("search").value.trim().toLowerCase();
    return ordered(records).filter((r) => `${r.method} ${r.family}`.toLowerCase().includes(wanted));
  }

  function asCsv(records) {
    const quoted = (v) => (/[",\n]/.test(v) ? `"${v.replaceAll('"', '""')}"` : v);
    const cell = (v) => (typeof v === "string" ? quoted(v) : Number.isNaN(v) ? "" : String(v));
    const lines = visible(records).map((r) => COLUMNS.map((c) => cell(r[c.key])).join(","));
    return [COLUMNS.map((c) => c.key).join(","), ...lines].join("\n") + "\n";
  }

  // Filters and order live in the address, so that a view can be sent to somebody.
  const FIELDS = ["search", "benchmark", "model", "dataset", "draw", "classes-from", "classes-to"].filter(byId);
  const boxes = () => [...document.querySelectorAll("input[name=method]")];
  function remember() {
    const state = new URLSearchParams();
    for (const id of FIELDS) if (byId(id).value !== "") state.set(id, byId(id).value);
    const left = boxes().filter((box) => box.checked !== box.defaultChecked).map((box) => data.methods[box.value].method);
    if (left.length) state.set("toggled", JSON.stringify(left));
    if (sort.key !== "rankLogloss" || sort.descending) state.set("sort", (sort.descending ? "-" : "") + sort.key);
    const text = state.toString();
    if (text !== location.hash.slice(1)) history.replaceState(null, "", text ? `#${text}` : location.href.split("#")[0]);
  }
  function recall() {
    const state = new URLSearchParams(location.hash.slice(1));
    for (const id of FIELDS) byId(id).value = state.get(id) ?? "";
    let toggled = [];
    try { toggled = JSON.parse(state.get("toggled") ?? "[]"); } catch { /* a mangled address shows the defaults */ }
    for (const box of boxes()) box.checked = box.defaultChecked !== toggled.includes(data.methods[box.value].method);
    const order = state.get("sort") ?? "rankLogloss", key = order.replace(/^-/, "");
    if (COLUMNS.some((c) => c.key === key)) Object.assign(sort, { key, descending: order.startsWith("-") });
  }

  function element(name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function draw() {
    const chosen = selection();
    const { records, summary } = board(chosen);
    const best = {};
    for (const column of COLUMNS.filter((c) => c.best)) {
      const values = known(records.map((r) => r[column.key]));
      if (values.length > 1) best[column.key] = shown(column, column.best(...values));
    }
    const body = document.createDocumentFragment();
    for (const record of visible(records)) {
      const line = element("tr");
      for (const column of COLUMNS) {
        const text = shown(column, record[column.key]);
        const cell = element("td", undefined, column.key in best && text === best[column.key] ? "best" : "");
        if (column.key === "method") {
          const swatch = element("span", undefined, "swatch");
          swatch.style.background = record.colour;
          cell.append(swatch);
          cell.title = text;
        }
        cell.append(text);
        line.append(cell);
      }
      body.append(line);
    }
    byId("board").tBodies[0].replaceChildren(body);
    [...byId("board").tHead.rows[0].cells].forEach((cell, i) => {
      if (COLUMNS[i].key === sort.key) cell.setAttribute("aria-sort", sort.descending ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    const others = chosen.methods.filter((m) => m !== NONE).length;
    byId("chosen").textContent = `${others} of ${data.methods.length - (NONE >= 0 ? 1 : 0)}`;
    remember();
    byId("status").textContent = !chosen.rows.length ? "No experiment fits these filters."
      : !chosen.methods.length ? "No method is chosen."
      : `${chosen.rows.length} experiments on ${summary.datasets} datasets; ranks over ${summary.complete} of them.`;
  }

  for (const column of COLUMNS) {
    const cell = element("th"), button = element("button", column.label);
    cell.scope = "col";
    button.type = "button";
    button.title = column.tip;
    button.setAttribute("aria-description", column.tip);
    button.addEventListener("click", () => {
      sort.descending = sort.key === column.key ? !sort.descending : Boolean(column.down);
      sort.key = column.key;
      draw();
    });
    cell.append(button);
    byId("board").tHead.rows[0].append(cell);
  }
  byId("filters").addEventListener("input", draw);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  // Reset by hand: the event "reset" comes before the fields have changed, so that a drawing would have to wait.
  byId("clear").addEventListener("click", (event) => {
    event.preventDefault();
    byId("filters").reset();
    draw();
  });
  byId("download").addEventListener("click", () => {
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([asCsv(board(selection()).records)], { type: "text/csv" }));
    link.download = "leaderboard.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  addEventListener("hashchange", () => { recall(); draw(); });
  if (location.hash) recall();
  draw();
})();
