// Attributes of requests and the values that they have, in rows of a form.

import { wrongAt, Field } from "./form.tsx";

export interface Attribute {
  name: string;
  value: string;
}

const names = ["user", "api_key", "ip", "bearer", "host", "path", "method", "region", "header.", "cookie.", "query.", "jwt.", "descriptor."];

/** Those that have a name, by it. */
export function valuesOf(attributes: readonly Attribute[]): Record<string, string> {
  return Object.fromEntries(attributes.filter((a) => a.name.trim() !== "").map((a) => [a.name.trim(), a.value]));
}

interface Props {
  /** What the ids of the fields begin with. */
  id: string;
  attributes: readonly Attribute[];
  onChange: (attributes: Attribute[]) => void;
  /** What is wrong, and the path that the names of attributes follow in it. */
  error?: Error | undefined;
  path?: string;
  /** How many there have to be. */
  least: number;
  /** "/" leads to the first value. */
  search?: boolean;
}

export function Attributes({ id, attributes, onChange, error, path = "", least, search = false }: Props) {
  // What is said of none of them by name is said of the first.
  const named = attributes.map((a) => (path === "" ? [] : wrongAt(error, `${path}.${a.name.trim()}`)));
  const others = path === "" ? [] : wrongAt(error, path).filter((e) => !named.flat().includes(e));
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
              <button type="button" aria-label={`Leave ${a.name || "this attribute"} out`} onClick={() => onChange(attributes.filter((_, j) => j !== i))}>
                Leave out
              </button>
            </div>
          )}
        </div>
      ))}
    </>
  );
}
