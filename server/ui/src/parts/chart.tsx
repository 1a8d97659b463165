// Charts of traffic over time.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { rate } from "../format.ts";
import { seconds, type Series, type Traffic } from "../traffic.ts";

interface Line {
  label: string;
  of: keyof Series;
  /** The CSS custom property with its colour. */
  color: string;
  /** Drawn on top of the stacked lines above it in the list: together they are all requests. */
  stacked?: boolean;
}

const lines: readonly Line[] = [
  { label: "Allowed", of: "allowed", color: "--accent", stacked: true },
  { label: "Delayed", of: "delayed", color: "--delayed", stacked: true },
  { label: "Denied", of: "denied", color: "--bad", stacked: true },
  { label: "Degraded", of: "degraded", color: "--warn" },
  { label: "Would be denied", of: "shadow_denied", color: "--shadow" },
];

/** Longer series are shown with wider steps. */
const mostPoints = 300;

/**
 * Requests per second of the whole fleet, or of a rule: the height of the area is all requests. Lines that are always 0 are left out,
 * except for allowed and denied. The legend has the figures of the point under the pointer.
 */
export function TrafficChart({ traffic, label, height = 180 }: { traffic: Traffic; label: string; height?: number }) {
  const holder = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  const [pointed, setPointed] = useState<number | null>(null);
  const shown = lines.filter((l) => l.of === "allowed" || l.of === "denied" || traffic.total[l.of]?.some((v) => v > 0));
  const data = plotData(traffic, shown);
  // The lowest line of the stack is drawn last, so that a line without requests does not cover it.
  const drawn = [...shown.filter((l) => l.stacked).reverse(), ...shown.filter((l) => !l.stacked)];
  const [times, ...values] = stack(data, shown);
  const plotted: uPlot.AlignedData = [times, ...drawn.map((l) => values[shown.indexOf(l)] ?? [])];
  const key = JSON.stringify([theme, shown.map((l) => l.of), height]);
  const plot = useRef<uPlot | undefined>(undefined);
  useLayoutEffect(() => {
    const at = holder.current;
    if (!at) return;
    const made = new uPlot(options(at.clientWidth, height, drawn, setPointed), plotted, at);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: at.clientWidth, height }));
    resized.observe(at);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [key]);
  useEffect(() => plot.current?.setData(plotted), [traffic]);
  const time = pointed === null ? undefined : data[0][pointed];
  return (
    <figure class="chart" aria-label={label}>
      <div ref={holder} />
      <figcaption class="legend-line">
        {shown.map((l, k) => (
          <span key={l.of} class={`key ${l.of}`}>
            {l.label}
            {pointed !== null && time !== undefined && <strong class="num"> {rate(data[k + 1]?.[pointed] ?? 0)}</strong>}
          </span>
        ))}
        <span class="muted num">requests per second{time !== undefined && ` at ${clockText(time, true)}`}</span>
      </figcaption>
    </figure>
  );
}

/** Adds to each stacked line those below it. */
export function stack(data: uPlot.AlignedData, shown: readonly { stacked?: boolean }[]): uPlot.AlignedData {
  const sums = data[0].map(() => 0);
  const [times, ...values] = data;
  return [
    times,
    ...values.map((line, k) => {
      if (!shown[k]?.stacked) return line;
      return sums.map((sum, i) => (sums[i] = sum + (line[i] ?? 0)));
    }),
  ];
}

/** Times in seconds, then each line in requests per second. */
export function plotData(traffic: Traffic, shown: readonly { of: keyof Series }[]): uPlot.AlignedData {
  const step = seconds(traffic.step);
  const start = Date.parse(traffic.start) / 1000;
  const n = traffic.total.requests.length;
  const size = Math.max(1, Math.ceil(n / mostPoints));
  const times: number[] = [];
  const values = shown.map((): number[] => []);
  // The first, incomplete group is left out, so that the latest steps are always shown.
  for (let i = n % size; i + size <= n; i += size) {
    times.push(start + i * step);
    shown.forEach((l, k) => {
      let sum = 0;
      for (let j = i; j < i + size; j++) sum += traffic.total[l.of]?.[j] ?? 0;
      values[k]?.push(sum / (size * step));
    });
  }
  return [times, ...values];
}

function options(width: number, height: number, shown: readonly Line[], onPoint: (index: number | null) => void): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string): string => resolve(style.getPropertyValue(name));
  const axis: uPlot.Axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
  return {
    width,
    height,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    hooks: { setCursor: [(u) => onPoint(u.cursor.idx ?? null)] },
    series: [{}, ...shown.map((l) => ({ label: l.label, stroke: color(l.color), width: 1.5, points: { show: false }, ...(l.stacked ? { fill: faint(color(l.color), 0.18) } : { dash: [5, 4] }) }))],
    // Each stacked area ends at the line below it.
    bands: shown.flatMap((l, k) => (l.stacked && shown[k + 1]?.stacked ? [{ series: [k + 1, k + 2] as uPlot.Band.Bounds }] : [])),
    axes: [
      { ...axis, values: (_, splits) => splits.map((at) => clockText(at)), space: 80 },
      { ...axis, size: 52, label: "req/s", labelSize: 18, labelFont: axis.font ?? "", labelGap: 0, values: (_, splits) => splits.map(rate) },
    ],
  };
}

/** The colour, mostly transparent. */
export function faint(rgb: string, opacity = 0.09): string {
  return rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${opacity})`);
}

function clockText(at: number, withSeconds = false): string {
  const d = new Date(at * 1000);
  const two = (n: number): string => n.toString().padStart(2, "0");
  return d.getSeconds() === 0 && withSeconds !== true ? `${two(d.getHours())}:${two(d.getMinutes())}` : `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** A canvas does not know light-dark(): a hidden element computes the colour. */
export function resolve(value: string): string {
  const probe = document.createElement("span");
  probe.hidden = true;
  probe.style.color = value;
  document.body.append(probe);
  const computed = getComputedStyle(probe).color;
  probe.remove();
  return computed;
}

/** Returns a value that changes with the colours. */
export function useTheme(): string {
  const now = (): string => `${document.documentElement.dataset["theme"] ?? ""} ${matchMedia("(prefers-color-scheme: dark)").matches}`;
  const [theme, setTheme] = useState(now);
  useEffect(() => {
    const changed = (): void => setTheme(now());
    const watch = new MutationObserver(changed);
    watch.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", changed);
    return () => {
      watch.disconnect();
      system.removeEventListener("change", changed);
    };
  }, []);
  return theme;
}
