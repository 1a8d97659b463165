// The time that figures and charts cover.

import { windows } from "../traffic.ts";

export function WindowChoice({ value, onChange }: { value: string; onChange: (window: string) => void }) {
  return (
    <p class="fresh">
      <label for="window">Last</label>
      <select id="window" value={value} onChange={(e) => onChange(e.currentTarget.value)}>
        {windows.map(([v, name]) => (
          <option key={v} value={v}>
            {name}
          </option>
        ))}
      </select>
    </p>
  );
}
