// Rows of a form for attributes of requests and their values.

import { errorsAt, Field } from "./form.tsx";

export interface Attribute {
  name: string;
  value: string;
}

const names = ["user", "api_key", "ip", "bearer", "host", "path", "method", "region", "header.", "cookie.", "query.", "jwt.", "descriptor."];

/** The values by name. Rows without a name are left out. */
export function valuesOf(attributes: readonly Attribute[]): Record<string, string> {
  return Object.fromEntries(attributes.filter((a) => a.name.trim() !== "").map((a) => [a.name.trim(), a.value]));
}

interface Props {
  /** Prefix of the ids of the fields. */
  id: string;
  attributes: readonly Attribute[];
  onChange: (attributes: Attribute[]) => void;
  /** The error, and the path of the attributes in it. */
  error?: Error | undefined;
  path?: string;
  /** The minimum number of rows. */
  least: number;
  /** The key "/" focuses the first value. */
  search?: boolean;
}

export function Attributes({ id, attributes, onChange, error, path = "", least, search = false }: Props) {
  // Errors without an attribute's name are shown at the first row.
  const named = attributes.map((a) => (path === "" ? [] : errorsAt(error, `${path}.${a.name.trim()}`)));
  const others = path === "" ? [] : errorsAt(error, path).filter((e) => !named.flat().includes(e));
  return (
    <>
      <datalist id="names">
        {names.map((n) => (
          <option key={n} value={n} />
        ))}
      </datalist>
      {attributes.map((a, i) => (
        <div class="fields" key={i}>
          <Field id={`${id}-name-${i}`} label="Attribute">
            {(props) => <input {...props} list="names" size={14} required autocomplete="off" value={a.name} onInput={(e) => onChange(attributes.with(i, { ...a, name: e.currentTarget.value }))} />}
          </Field>
          <Field id={`${id}-value-${i}`} label="Value" class="wide" errors={i === 0 ? [...others, ...(named[0] ?? [])] : (named[i] ?? [])}>
            {(props) => (
              <input
                {...props}
                {...(search && i === 0 ? { "data-search": true } : {})}
                required
                autocomplete="off"
                spellcheck={false}
                value={a.value}
                onInput={(e) => onChange(attributes.with(i, { ...a, value: e.currentTarget.value }))}
              />
            )}
          </Field>
          {attributes.length > least && (
            <div class="beside">
              <button type="button" aria-label={`Remove ${a.name || "this attribute"}`} onClick={() => onChange(attributes.filter((_, j) => j !== i))}>
                Remove
              </button>
            </div>
          )}
        </div>
      ))}
    </>
  );
}
