// SPDX-License-Identifier: Apache-2.0
// The view of operations: the report that bootseer ops wrote of a cluster's jobs and metrics, with
// the starts that this service knows, on one axis of time.
"use strict";

const AXIS_MARKS = 7; // marks of the axis of time
const TRACK_MOST = 3000; // bars of a track
const OFTEN = 30; // bars of a chart
const OLD_S = 8 * 86400; // of a report: a timer writes it, at least each week
const SAVES_WORTH = 0.9; // another interval of saves is worth a word from this share of the cost down

function percent(n) {
	return n === null || n === undefined ? "-" : (100 * n).toFixed(2) + " %";
}

function secondsOrNone(s, none) {
	return s === null || s === undefined ? none : seconds(s);
}

// A row of bars along the time: marks of [begin, end, colour, text].
function track(name, span, marks) {
	const row = make("div", undefined, "track");
	const box = make("div");
	const shown = marks.filter((m) => m[1] >= span.from && m[0] <= span.to).slice(-TRACK_MOST);
	const place = (s) => 100 * (Math.min(Math.max(s, span.from), span.to) - span.from) / (span.to - span.from);

	box.setAttribute("role", "img");
	box.setAttribute("aria-label", name + ": " + shown.length + " from " + when(span.from * 1000) + " to " + when(span.to * 1000));
	for (const [begin, end, colour, text] of shown) {
		const bar = box.appendChild(make("span"));

		bar.title = text;
		bar.style.setProperty("left", place(begin) + "%");
		bar.style.setProperty("width", place(end) - place(begin) + "%");
		bar.style.setProperty("background", colour);
	}
	row.append(make("span", name + " (" + shown.length + ")"), box);
	return row;
}

function timeAxis(span) {
	const axis = make("div", undefined, "axis");
	const isLong = span.to - span.from > AXIS_MARKS * 86400; // then days are enough

	for (let i = 0; i < AXIS_MARKS; i++) {
		const at = when(1000 * (span.from + (span.to - span.from) * i / AXIS_MARKS));
		const mark = axis.appendChild(make("span", isLong ? at.split(" ")[0] : at.replace(/(:..):..$/, "$1")));

		mark.style.setProperty("left", 100 * i / AXIS_MARKS + "%");
	}
	return axis;
}

// The time of the metrics, else that of the jobs.
function spanOf(report) {
	const of = report.phases;
	const jobs = report.sessions || [];

	if (of)
		return { from: of.from_s, to: of.to_s };
	return jobs.length ? { from: Math.min(...jobs.map((s) => s.begin_s)), to: Math.max(...jobs.map((s) => s.end_s)) } : null;
}

const SESSION_COLUMNS = [
	["Job", (s) => s.job],
	["Name", (s) => make("span", s.name, "words")],
	["Began", (s) => moment(s.begin_s * 1000)],
	["Ran", (s) => seconds(s.end_s - s.begin_s), true],
	["Nodes", (s) => String(s.nodes), true],
	["Ended", (s) => make("span", s.state, s.failed ? "slow" : "")],
];

function timelinePart(view, report, starts) {
	const span = spanOf(report);
	const burst = (what, colour) => (b) => [b.begin_s, b.end_s, theme(colour),
		what + " of " + when(b.begin_s * 1000) + ", " + seconds(b.end_s - b.begin_s) + ", " + size(b.bytes)];
	const said = (s) => s.job + " " + s.name + ": " + s.state + ", " + s.nodes + " nodes, " + seconds(s.end_s - s.begin_s);
	const jobs = (report.sessions || []).map((s) => [s.begin_s, s.end_s, theme("c0"), said(s)]);
	const ends = (report.sessions || []).filter((s) => s.failed).map((s) => [s.end_s, s.end_s, theme("slow"), said(s)]);
	const failures = report.precursors ? report.precursors.failures : [];

	if (!span || !(span.to > span.from))
		return;
	part(view, "Jobs, phases and failures", legendList([["job", theme("c0")], ["failed", theme("slow")], ["load", theme("c2")],
		["save", theme("c6")], ["start that this service saw", theme("c9")]]));
	if (report.sessions)
		view.append(track("Jobs", span, jobs), track("Their failures", span, ends));
	if (report.phases)
		view.append(track("Loads", span, report.phases.loads.map(burst("load", "c2"))),
			track("Saves", span, report.phases.saves.map(burst("save", "c6"))));
	if (report.precursors)
		view.append(track("GPU failures", span, failures.map((f) => [f.at_s, f.at_s, theme("slow"),
			f.node + " at " + when(f.at_s * 1000) + (f.xid ? ", XID " + f.xid : "")])));
	view.append(track("Starts", span, starts.map((s) => [s.begin_ms / 1000, s.begin_ms / 1000 + (s.duration_s || 0), theme("c9"),
		s.job + ", attempt " + s.attempt])), timeAxis(span));
	if (report.sessions && report.sessions.length)
		view.append(firstRows(SESSION_COLUMNS, report.sessions.slice().reverse()));
}

function costPart(view, cost) {
	const settings = (cost.settings || []).filter((s) => s.now);
	const best = settings.find((s) => s.best);
	const losses = cost.losses;

	part(view, "Cost of failures", factsOf([
		["Jobs that trained", String(cost.jobs)],
		["Failed", String(cost.failed)],
		["Failed before they trained", String(cost.failed_early)],
		["GPU hours", hours(cost.gpu_s / 3600)],
		["Between failures", secondsOrNone(cost.mtbf_s, "none failed")],
		["At 95 %", secondsOrNone(cost.mtbf_low_s, "-") + " to " + secondsOrNone(cost.mtbf_high_s, "any")],
		...(best ? [["Best interval of saves", seconds(best.best.interval_s)]] : []),
		...(losses ? [["Lost since the last save", seconds(losses.sum_s)]] : []),
	]));
	if (settings.length) {
		const rows = settings.flatMap((s) => [["now, each " + seconds(s.now.interval_s), s.now], ...(s.best
			? [["best, each " + seconds(s.best.interval_s), s.best]] : [])]);

		view.append(make("h3", "Time that saves and failures cost, by the interval of saves"),
			legend([["saves", theme("c6")], ["work since the last save", theme("slow")]]),
			partsChart("Cost of saves and failures", rows.map(([name, of]) => [name, [["saves", of.save, theme("c6")],
				["work since the last save", of.lost, theme("slow")]]]), percent));
	}
	if (losses && losses.lost_s.length)
		view.append(make("h3", "Work since the last save, by failure"), barChart("Work lost by failure",
			losses.lost_s.slice(-OFTEN).map((_, i) => "failure " + (i + 1)), [{ colour: theme("slow"),
				data: losses.lost_s.slice(-OFTEN), texts: losses.lost_s.slice(-OFTEN).map((s, i) => "failure " + (i + 1) + ": " +
					secondsOrNone(s, "unknown")) }], { say: seconds }));
}

function requestFacts(what, r) {
	return r && r.requests > 0 ? [[what + ": wait for a slot", seconds(r.wait_s)], [what + ": network and server", seconds(r.serve_s)],
		[what + ": waiting", percent(r.wait_share)]] : [];
}

function restartPart(view, restart) {
	part(view, "Loads, and where requests wait", factsOf([
		["Loads", String(restart.loads)],
		["Median load", seconds(restart.median_s)],
		["Longest", seconds(restart.max_s)],
		["Rate, all nodes", size(restart.rate) + "/s"],
		["Of their links", percent(restart.used_share)],
		...requestFacts("Saves", restart.save_requests),
		...requestFacts("Loads", restart.load_requests),
	]));
}

function excludedPart(view, nodes) {
	const out = nodes.nodes.filter((n) => n.left_out);

	part(view, "Nodes that large jobs ran without");
	if (!out.length) {
		view.append(make("p", "No node was left out of any of " + nodes.jobs + " jobs."));
		return;
	}
	const shown = out.slice(0, OFTEN);

	view.append(make("h3", "Hours left out, by node"), legend([["held by another job", theme("c8")], ["not chosen, or down", theme("c0")]]), partsChart("Hours left out",
		shown.map((n) => [n.node, [["held by another job", n.held_s / 3600, theme("c8")],
			["not chosen, or down", (n.excluded_s - n.held_s) / 3600, theme("c0")]]]), hours), firstRows([
		["Node", (n) => nodeLink(n.node)],
		["Jobs without it", (n) => String(n.left_out), true],
		["Hours", (n) => hours(n.excluded_s / 3600), true],
		["Of all", (n) => share(n.excluded_s, nodes.run_s), true],
		["Held", (n) => share(n.held_s, n.excluded_s), true],
	], out));
}

function chainsPart(view, chains) {
	part(view, "Chains of retries", factsOf([
		["Chains", String(chains.n)],
		["Tries", String(chains.tries)],
		["A retry trained in", String(chains.trained)],
		["Node hours of tries that did not train", hours(chains.wasted_node_s / 3600)],
	]));
	if (!chains.n)
		return;
	view.append(make("h3", "Time from a failure to the next try: half of them in the box"), boxChart("Time from a failure to the next try", [
		["the scheduler's own", chains.gap_automatic_s, theme("c0")], ["submitted anew", chains.gap_other_s, theme("c6")],
	].map(([name, s, colour]) => [name, s && s.n ? s : null, colour]), seconds), firstRows([
		["Name", (c) => make("span", c.name, "words")],
		["User", (c) => c.user],
		["Began", (c) => moment(c.begin * 1000)],
		["Tries", (c) => String(c.tries), true],
		["Outcome", (c) => make("span", c.outcome, c.outcome === "given up" ? "slow" : "")],
		["Node hours lost", (c) => hours(c.wasted_node_s / 3600), true],
		["Most ends alike", (c) => (c.alike > 1 ? c.alike + " of " + c.alike_state + " " + c.alike_exit : "-")],
	], chains.chains));
}

function warningOf(f) {
	const before = f.metrics.filter((m) => m.is_before);

	if (!f.is_known)
		return "unknown";
	return before.length ? before.map((m) => m.metric + ", " + seconds(m.lead_s) + " before").join("; ") : "nothing preceded it";
}

function precursorsPart(view, found) {
	const leads = found.failures.flatMap((f) => f.metrics.filter((m) => m.is_before).slice(0, 1).map((m) =>
		[f.node + " " + when(f.at_s * 1000), m.lead_s, m.metric]));

	part(view, "What moved before failures, and slow nodes", factsOf([
		["Failures compared", String(found.compared)],
		["Had a warning", String(found.preceded)],
		["By chance", found.by_chance.toFixed(2)],
		["False alarms a day", (found.alarms / found.days).toFixed(1)],
		["At 95 %", found.alarms_a_day_low.toFixed(1) + " to " + found.alarms_a_day_high.toFixed(1)],
		["Slow nodes", make("span", String(new Set(found.slow.map((s) => s.node)).size), found.slow.length ? "slow" : "")],
	]));
	if (leads.length)
		view.append(make("h3", "How long before a failure a metric left its peers"), barChart("How long before a failure a metric left its peers", leads.map((l) => l[0]), [{ colour: theme("c1"),
			data: leads.map((l) => l[1]), texts: leads.map((l) => l[0] + ": " + l[2] + ", " + seconds(l[1]) + " before") }],
		{ across: true, say: seconds }));
	if (found.failures.length)
		view.append(firstRows([
			["Node", (f) => nodeLink(f.node)],
			["Failed", (f) => moment(f.at_s * 1000)],
			["XID", (f) => (f.xid ? String(f.xid) : "-"), true],
			["Before it", warningOf],
		], found.failures.slice().reverse()));
	if (found.slow.length)
		view.append(make("h3", "Nodes that were behind their peers for long"), firstRows([
			["Node", (s) => nodeLink(s.node, true)],
			["Metric", (s) => s.metric],
			["By", (s) => (100 * s.share).toFixed(0) + " %", true],
			["From", (s) => moment(s.from_s * 1000)],
			["To", (s) => moment(s.to_s * 1000)],
		], found.slow));
}

// Each part with what it takes for granted, as bootseer ops report says it.
const OPERATIONS = [
	["cost", costPart, "Failures come at random, at one rate; a job that a person or its time limit ended did not fail."],
	["restart", restartPart, "Requests are those of the last 20 saves and loads."],
	["nodes", excludedPart, "A node that no job of this time used is not known."],
	["chains", chainsPart, "Jobs of one user and name that begin within a day after a failure try the same again."],
	["precursors", precursorsPart, "Nodes do the same at the same time, so that each is measured by the others."],
];

// Lines for the one on call: what costs most, and what to do about it.
function operationsLines(report) {
	const box = make("div", undefined, "now");
	const say = (text, name) => box.append(make("p", text, name));
	const age = Date.now() / 1000 - report.made_s;
	const setting = ((report.cost || {}).settings || []).find((s) => s.now && s.best);
	const alike = ((report.chains || {}).chains || []).filter((c) => c.outcome === "given up" && c.alike > 1);
	const slow = [...new Set(((report.precursors || {}).slow || []).map((s) => s.node))];

	if (age > OLD_S)
		say("This report is " + seconds(86400 * Math.floor(age / 86400)) + " old: does the timer that runs bootseer ops report still run?", "bad");
	if (slow.length)
		say("Behind their peers for long, " + slow.length + (slow.length === 1 ? " node: " : " nodes: ") +
			slow.slice(0, NODES_SHOWN).join(", ") + (slow.length > NODES_SHOWN ? ", ..." : "") + ". Test or cordon them.", "bad");
	if (alike.length)
		say(alike[0].name + " of " + alike[0].user + " was tried " + alike[0].tries + " times and given up; " + alike[0].alike +
			" tries ended alike (" + alike[0].alike_state + " " + alike[0].alike_exit + "): read its log before it is tried again.", "busy");
	if (setting && setting.best.save + setting.best.lost < SAVES_WORTH * (setting.now.save + setting.now.lost))
		say("Save each " + seconds(setting.best.interval_s) + " instead of each " + seconds(setting.now.interval_s) +
			": saves and failures then cost " + percent(setting.best.save + setting.best.lost) + " of the time instead of " +
			percent(setting.now.save + setting.now.lost) + ".", "busy");
	return box;
}

function operationsView(report, starts) {
	const view = make("section");
	const made = make("p", "Written by bootseer ops report ");

	made.append(moment(report.made_s * 1000));
	view.append(make("h2", "Operations of the cluster"), made, operationsLines(report));
	for (const s of report.sources.filter((x) => !x.is_there))
		view.append(make("p", "No " + s.name + ": " + s.why + ". So " + s.costs + ".", "why"));
	timelinePart(view, report, starts);
	for (const [name, add, assumed] of OPERATIONS) {
		if (!report[name])
			continue;
		add(view, report[name]);
		view.append(make("small", "Assumed: " + assumed));
	}
	return view;
}

async function operationsViewNow() {
	const [report, found] = await Promise.all([ask("/v1/operations"), ask("/v1/starts?limit=200")]);

	return operationsView(report, found.starts);
}
