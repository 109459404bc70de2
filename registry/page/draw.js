// SPDX-License-Identifier: Apache-2.0
// Charts, drawn by Chart.js (/page/chart.js), and their colours.  What a chart shows stands in
// its canvas as a list, too, for readers who do not see it; the arrow keys go through the list.
"use strict";

const HUES = 10; // --c0 to --c9 of the style sheet
const TALL = 240; // pixels of a chart with columns
const ROW_TALL = 20; // of a row of one with bars
const ROWS_MOST = 100; // a canvas can be only so tall
const POINTS_TALL = 560;
const LEGEND_MOST = 12; // entries, before those that are unfolded
const KNOWN = ["queue", "image", "env", "ckpt", "model"]; // families that have one hue in all views
const CUT_FROM = 5; // bars, of fewer none is cut off
const CUT_BEYOND = 4; // times what four of five have
const NARROW = 600; // pixels: a phone, where names of rows are cut
const KEYS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 };
const charts = []; // of the view that is shown

// How far a key goes through a list; with a modifier it is the browser's.
function stepOf(e) {
	return e.altKey || e.ctrlKey || e.metaKey ? 0 : KEYS[e.key];
}

function theme(name) {
	return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function shade(hex, by) {
	const to = by > 0 ? 255 : 0;

	return "#" + [1, 3, 5].map((at) => {
		const n = parseInt(hex.slice(at, at + 2), 16);

		return Math.round(n + (to - n) * Math.abs(by)).toString(16).padStart(2, "0");
	}).join("");
}

// A stage that waits for other nodes, as the service has it, is grey: the others are seen.
function isWait(stage) {
	return /(^|\.)(wait|barrier)$/.test(stage);
}

// Stages in the order in which a start mostly has them, for those that are known.
function byCourse(a, b) {
	const rank = (s) => (isWait(s) ? 2 * HUES : KNOWN.indexOf(s.split(".")[0]) + 1 || HUES);

	return rank(a) - rank(b);
}

// The colour of each stage: a hue for those whose names begin alike (image.hot, image.start),
// in which each has a shade of its own.  Where none is free, the next hue's free shades are
// taken; colours come again when all are in use.
function colours(stages) {
	const shades = theme("shades").split(" ").map(Number); // how far to white, or to black
	const all = HUES * shades.length;
	const hues = new Map(KNOWN.map((word, i) => [word, i])); // of families
	const taken = new Set();
	const map = new Map([...stages].map((stage) => [stage, theme("wait")]));

	for (const stage of [...stages].filter((s) => !isWait(s)).sort().sort(byCourse)) {
		const word = stage.split(".")[0];

		if (!hues.has(word))
			hues.set(word, hues.size % HUES);
		if (taken.size === all)
			taken.clear();
		let at = hues.get(word) * shades.length;

		while (taken.has(at))
			at = (at + 1) % all;
		taken.add(at);
		map.set(stage, shade(theme("c" + Math.floor(at / shades.length)), shades[at % shades.length]));
	}
	return map;
}

function legendList(entries) {
	const list = make("ul", undefined, "legend");

	for (const [name, colour] of entries) {
		const item = list.appendChild(make("li"));

		item.appendChild(make("span")).style.setProperty("background", colour);
		item.append(name);
	}
	return list;
}

// Many names are a list of their own, behind the first ones: charts name them where they are
// pointed at, too.
function legend(map) {
	const all = [...map];

	if (all.length <= LEGEND_MOST)
		return legendList(all);
	const box = make("div", undefined, "legend-box");
	const more = make("details");

	more.append(make("summary", all.length - LEGEND_MOST + " more"), legendList(all.slice(LEGEND_MOST)));
	box.append(legendList(all.slice(0, LEGEND_MOST)), more);
	return box;
}

// Steps of an axis of seconds that people count in.
const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

function stepOfSeconds(most, steps = 6) {
	return STEPS.find((n) => most / n <= steps) || 86400 * Math.ceil(most / steps / 86400);
}

// Where an axis ends: one value far beyond all others is cut off, and said, as the others could
// not be told from one another.
function endOf(tops) {
	const sorted = tops.filter((n) => n > 0).sort((a, b) => a - b);
	const most = sorted[sorted.length - 1] || 0;
	const usual = sorted[Math.floor((sorted.length - 1) * 0.8)] || 0;

	return sorted.length >= CUT_FROM && most > CUT_BEYOND * usual ? usual * 1.5 : 0;
}

// What was cut off is written where it leaves the chart.
function cutMarks(tops, end, across, say) {
	return { id: "cut", afterDatasetsDraw(c) {
		const g = c.ctx, area = c.chartArea;

		g.save();
		g.font = "600 11px system-ui, sans-serif";
		tops.forEach((top, i) => {
			if (top <= end)
				return;
			const at = (across ? c.scales.y : c.scales.x).getPixelForValue(i);

			const text = (across ? "\u2192 " : "\u2191 ") + say(top), wide = g.measureText(text).width + 6;
			const x = across ? area.right - wide : at - wide / 2, y = across ? at - 7 : area.top + 2;

			g.fillStyle = theme("back");
			g.fillRect(x, y, wide, 14);
			g.fillStyle = theme("slow");
			g.textBaseline = "middle";
			g.fillText(text, x + 3, y + 7.5);
		});
		g.restore();
	} };
}

function isNarrow() {
	return window.innerWidth < NARROW;
}

// Names of nodes mostly differ at their ends.
function shortName(name, most) {
	return name.length > most ? "\u2026" + name.slice(1 - most) : name;
}

// What all names of nodes have behind their first dot, which tells none from another.
function domainOf(names) {
	const domain = names.length > 1 ? /(\..*)?$/.exec(names[0])[0] : "";

	return names.every((n) => n.endsWith(domain)) ? domain : "";
}

// A chart is made when it comes into sight, or onto paper.
const sight = new IntersectionObserver((seen) => {
	for (const { isIntersecting, target } of seen)
		if (isIntersecting)
			beginChart(target);
}, { rootMargin: "200px" });

function beginChart(box) {
	sight.unobserve(box);
	if (box.begin)
		box.begin();
	box.begin = null;
}

window.addEventListener("beforeprint", () => {
	for (const box of document.querySelectorAll(".chart"))
		beginChart(box);
});

function clearCharts() {
	for (const c of charts.splice(0))
		c.destroy();
}

// told: [index of the data set, index in it, text] of what can be pointed at.
function chart(label, told, tall, config) {
	const box = make("div", undefined, "chart");
	const canvas = box.appendChild(make("canvas"));
	const list = canvas.appendChild(make("ul"));
	const texts = new Map(told.map(([d, i, text]) => [d + " " + i, text]));
	const textOf = (item) => texts.get(item.datasetIndex + " " + item.dataIndex);
	let c = null;
	let at = -1;

	list.append(...told.map((t) => make("li", t[2])));
	canvas.tabIndex = 0;
	canvas.setAttribute("role", "group");
	canvas.setAttribute("aria-label", label);
	box.style.setProperty("height", tall + "px");
	box.begin = () => {
		config.options = { animation: false, maintainAspectRatio: false, color: theme("text"),
			...config.options, plugins: { legend: { display: false }, tooltip: {
				displayColors: false, filter: textOf, callbacks: { title: () => "",
					label: (item) => textOf(item).split(", ") } } } };
		c = new Chart(canvas, config);
		charts.push(c);
	};
	canvas.addEventListener("keydown", (e) => {
		const step = stepOf(e);

		if (!c || !step || !told.length)
			return;
		e.preventDefault();
		at = Math.max(0, Math.min(told.length - 1, at + step));
		const [datasetIndex, index] = told[at];
		const place = c.getDatasetMeta(datasetIndex).data[index].getCenterPoint();

		c.setActiveElements([{ datasetIndex, index }]);
		c.tooltip.setActiveElements([{ datasetIndex, index }], place);
		c.render();
	});
	sight.observe(box);
	return box;
}

function axisOf(ticks, more, lines = true) {
	return { grid: { display: lines, color: theme("line") }, ticks: { color: theme("text"), maxRotation: 0, ...ticks }, ...more };
}

// Bars of names: series of { colour, data, texts }, and "order", the first in front, "wide" in
// pixels, "least" pixels long, "line" where it is one, "stack" if there are several.
// across: as rows; stacked: on top of one another; grouped: side by side; say: of numbers;
// keep: up to this nothing is cut off; from: where the axis begins.
function barChart(label, names, series, { across, stacked, grouped, say, keep = 0, from = 0 }) {
	const told = names.flatMap((_, i) => series.flatMap((s, d) => (s.texts && s.texts[i] ? [[d, i, s.texts[i]]] : [])));
	const long = isNarrow() ? 24 : 40;
	const [nameAxis, valueAxis] = across ? ["y", "x"] : ["x", "y"];
	const number = (n) => (Array.isArray(n) ? n[1] : n || 0);
	const tops = names.map((_, i) => series.map((t) => number(t.data[i])).reduce((a, b) => (stacked ? a + b : Math.max(a, b)), 0));
	const seen = Math.max(endOf(tops), keep);
	const cut = endOf(tops) && seen < Math.max(...tops) ? seen : 0;
	const end = say === seconds ? stepOfSeconds(cut) * Math.ceil(cut / stepOfSeconds(cut)) : cut;
	const most = end || Math.max(...tops, 0);
	const ticks = say === seconds ? { callback: secondsTick, stepSize: stepOfSeconds(most, isNarrow() ? 4 : 6) }
		: { callback: say, maxTicksLimit: 6 };
	// Rows have all of the width, wherever the last tick is.
	const last = end ? { max: end } : across && most > from ? { max: most + 0.02 * (most - from) } : { grace: "2%" };

	return chart(label, told, across ? names.length * ROW_TALL * (grouped ? 1.3 : 1) + 36 : TALL, {
		type: "bar",
		data: { labels: names.map((n) => shortName(n, long)), datasets: series.map((s) => ({
			type: s.line ? "line" : "bar", data: s.data, backgroundColor: s.colour, borderColor: s.colour,
			borderWidth: s.line ? 2 : 0, pointRadius: s.line ? 1 : 0, fill: s.line === "fill", order: s.order || 0,
			stack: s.stack, grouped: Boolean(grouped || stacked), barThickness: s.wide,
			minBarLength: s.least, barPercentage: 0.9, categoryPercentage: 0.9, borderSkipped: false })) },
		options: { indexAxis: nameAxis,
			interaction: stacked ? { mode: "nearest", intersect: true } : { mode: "index", intersect: false },
			scales: { [nameAxis]: axisOf({ autoSkip: !across }, { stacked }, false),
				[valueAxis]: axisOf({ includeBounds: !across, ...ticks },
					{ stacked, ...(from ? { min: from } : { beginAtZero: true }), ...last }) } },
		plugins: end ? [cutMarks(tops, end, across, say)] : [],
	});
}

// Bars of parts: [name, [what, number, colour]...].
function partsChart(label, rows, say) {
	const sum = (row) => row[1].reduce((n, p) => n + p[1], 0);

	return barChart(label, rows.map((row) => row[0] + (isNarrow() ? "" : ", " + say(sum(row)))), rows[0][1].map(([what, , colour], k) =>
		({ colour, data: rows.map((row) => row[1][k][1]),
			texts: rows.map((row) => row[0] + ", " + what + ": " + say(row[1][k][1])) })),
	{ across: true, stacked: true, say });
}

// Quartiles as a box, from the least to the most, of each row: [name, spread or null, colour].
// All boxes are seen whole, whatever lies far beyond them; on a phone there is no room to say that.
function boxChart(label, rows, say, from) {
	const known = rows.filter((r) => r[1]).slice(0, ROWS_MOST);
	const of = (a, b) => known.map((r) => [r[1][a], r[1][b]]);

	return barChart(label, known.map((r) => r[0]), [
		{ colour: known.map((r) => r[2]), data: of("p25", "p75"), wide: 12, least: 3, order: 2,
			texts: known.map(([name, s]) => name + ": half from " + say(s.p25) + " to " + say(s.p75) + ", median " +
				say(s.median) + ", all from " + say(s.min) + " to " + say(s.max) + ", " + s.n + " in all") },
		{ colour: theme("text"), data: of("min", "max"), wide: 2, least: 2, order: 3 },
		{ colour: theme("text"), data: of("median", "median"), wide: 16, least: 3, order: 1 },
	], { across: true, say, from, keep: isNarrow() ? Infinity : 1.05 * Math.max(...known.map((r) => r[1].p75), 0) });
}

// Who gave whom how much: nodes by name along both sides, a point for each pair.
function pairsChart(pairs, say) {
	const sort = (k) => [...new Set(pairs.map((p) => p[k]))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
	const givers = sort(0), takers = sort(1);
	const row = new Map(givers.map((n, i) => [n, i])), column = new Map(takers.map((n, i) => [n, i]));
	const most = Math.max(...pairs.map((p) => p[2]), 1);
	const few = Math.max(givers.length, takers.length) <= 30;
	const radii = pairs.map((p) => 2 + (few ? 7 : 3) * Math.sqrt(p[2] / most));
	const side = (text, names, more) => axisOf({ callback: (i) => (names[i] ? shortName(names[i], 14) : ""), precision: 0,
		includeBounds: false, ...(few ? { stepSize: 1, autoSkip: false, maxRotation: 90 } : { maxTicksLimit: 12 }) },
	{ min: -0.5, max: names.length - 0.5, title: { display: true, text, color: theme("text") }, ...more });

	return chart("Who gave whom how much", pairs.map((p, i) => [0, i, p[0] + " to " + p[1] + ": " + say(p[2])]),
		few ? Math.min(POINTS_TALL, givers.length * 24 + 140) : POINTS_TALL, {
			type: "scatter",
			data: { datasets: [{ data: pairs.map((p) => ({ x: column.get(p[1]), y: row.get(p[0]) })),
				backgroundColor: theme("c0") + "cc", borderWidth: 0,
				pointRadius: radii, pointHoverRadius: radii }] },
			options: { interaction: { mode: "nearest", intersect: true }, scales: {
				x: side("had", takers), y: side("gave", givers, { reverse: true }) } },
		});
}
