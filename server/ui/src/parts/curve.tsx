// The curve of a what-if: denied requests and affected clients over the limit.

import { useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

import type { WhatIf } from "../api.ts";
import { percent } from "../format.ts";
import { faint, resolve, useTheme } from "./chart.tsx";

const height = 220;

/** Percentages over the limit, on a logarithmic scale. The tested and the recommended limit have marks. */
export function Curve({ of }: { of: WhatIf }) {
  const holder = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  const data = curveData(of);
  useLayoutEffect(() => {
    const at = holder.current;
    if (!at) return;
    const plot = new uPlot(options(at.clientWidth, of), data, at);
    const resized = new ResizeObserver(() => plot.setSize({ width: at.clientWidth, height }));
    resized.observe(at);
    return () => {
      resized.disconnect();
      plot.destroy();
    };
  }, [theme, of]);
  return (
    <figure class="chart" aria-label={`Denied requests and affected clients at ${of.curve.length} limits from ${of.curve[0]?.limit ?? ""} to ${of.curve[of.curve.length - 1]?.limit ?? ""}`}>
      <div ref={holder} />
      <figcaption class="legend-line">
        <span class="key denied">Denied requests</span>
        <span class="key shadow_denied">Affected clients</span>
        <span class="muted">in percent, over the limit</span>
      </figcaption>
    </figure>
  );
}

/** The limit, then the percentages of denied requests and affected clients. */
export function curveData({ curve, requests, clients }: WhatIf): [number[], number[], number[]] {
  const share = (part: number, all: number): number => (all === 0 ? 0 : (100 * part) / all);
  return [curve.map((p) => p.count), curve.map((p) => share(p.denied.value, requests.value)), curve.map((p) => share(p.affected.value, clients.value))];
}

function options(width: number, { curve, unaffected_99 }: WhatIf): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string): string => resolve(style.getPropertyValue(name));
  const axis: uPlot.Axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
  const line = (label: string, name: string): uPlot.Series => ({ label, stroke: color(name), width: 2, fill: faint(color(name)), points: { show: true, size: 5 } });
  return {
    width,
    height,
    legend: { show: false },
    cursor: { y: false, points: { size: 7 } },
    scales: { x: { time: false, distr: 3 }, y: { range: (_, __, most) => [0, Math.max(1, Math.min(100, most * 1.1))] } },
    series: [{}, line("Denied requests", "--bad"), line("Affected clients", "--shadow")],
    axes: [
      { ...axis, splits: (plot) => ticks(curve.map((p) => p.count), plot.width), values: (_, splits) => splits.map((n) => curve.find((p) => p.count === n)?.limit ?? ""), filter: (_, splits) => splits, space: 60 },
      { ...axis, size: 56, values: (_, splits) => splits.map(percent) },
    ],
    hooks: { draw: [(plot) => mark(plot, unaffected_99?.count, color("--good"))] },
  };
}

/** As many of the limits as fit, at most seven, evenly. */
function ticks(counts: readonly number[], width: number): number[] {
  const every = Math.max(1, Math.ceil(counts.length / Math.min(7, Math.max(2, Math.floor(width / 110)))));
  return counts.filter((_, i) => i % every === 0);
}

/** Draws a dashed line at a limit. */
function mark(plot: uPlot, count: number | undefined, color: string): void {
  if (count === undefined) return;
  const { ctx, bbox } = plot;
  const x = plot.valToPos(count, "x", true);
  ctx.save();
  ctx.strokeStyle = color;
  ctx.lineWidth = 2;
  ctx.setLineDash([6, 5]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}
