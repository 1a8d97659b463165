// A sparkline. The text beside it has the current value.

const width = 120;
const height = 26;
const floor = height - 1;

interface Props {
  values: readonly (number | undefined)[];
  label: string;
  /** Draws bars, for rare events. */
  bars?: boolean;
  /** A part of each value, drawn in the foreground. */
  over?: readonly number[];
  /** The part would be denied by a shadow rule. */
  shadow?: boolean;
}

/** Draws values from left to right, from 0 to slightly above the maximum. A missing value breaks the line. */
export function Sparkline({ values, label, bars = false, over, shadow = false }: Props) {
  const most = Math.max(...values.map((v) => v ?? 0), 0) * 1.15;
  const x = (i: number): string => (values.length < 2 ? width : (i / (values.length - 1)) * width).toFixed(1);
  const y = (v: number): string => (most === 0 ? floor : floor - (v / most) * (floor - 1)).toFixed(1);
  let line = "";
  let area = "";
  values.forEach((v, i) => {
    if (v === undefined) return;
    if (bars) {
      if (v > 0) line += `M${x(i)} ${floor}V${y(v)}`;
      return;
    }
    const begins = i === 0 || values[i - 1] === undefined;
    const ends = i === values.length - 1 || values[i + 1] === undefined;
    line += `${begins ? "M" : "L"}${x(i)} ${y(v)}`;
    area += begins ? `M${x(i)} ${floor}L${x(i)} ${y(v)}` : `L${x(i)} ${y(v)}`;
    if (ends) area += `V${floor}Z`;
  });
  return (
    <svg class={bars ? "spark bars" : "spark"} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path class="area" d={area} />
      <line class="base" x1="0" y1={height - 0.5} x2={width} y2={height - 0.5} />
      <path class="line" d={line} />
      {over?.some((v) => v > 0) && <path class={shadow ? "over shadow" : "over"} d={over.map((v, i) => `${i === 0 ? "M" : "L"}${x(i)} ${y(v)}`).join("")} />}
    </svg>
  );
}
