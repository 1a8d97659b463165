// Forms. Errors are shown at the field that their path names.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import { Problem, type FieldError } from "../api.ts";
import type { Attempt } from "../attempt.ts";
import { ErrorNotice } from "./notices.tsx";

/** The errors of a field and of all fields below it: those of limits[0] belong to limits. */
export function errorsAt(error: Error | undefined, path: string): FieldError[] {
  return error instanceof Problem ? error.errors.filter((e) => isAt(e.path, path)) : [];
}

function isAt(path: string, field: string): boolean {
  return path === field || path.startsWith(field + ".") || path.startsWith(field + "[");
}

interface FormProps {
  attempt: Attempt;
  onSubmit: () => void;
  class?: string;
  /** Fields that show their own errors. Other errors are shown at the end. */
  fields: readonly string[];
  children: ComponentChildren;
  /** The label of the submit button. */
  submit: string;
  onCancel?: () => void;
  /** Other buttons. */
  others?: ComponentChildren;
}

/** A form. After an error, the first invalid field has the focus. */
export function Form({ attempt, onSubmit, class: kind = "card form", fields, children, submit, onCancel, others }: FormProps) {
  const form = useRef<HTMLFormElement>(null);
  const { error } = attempt;
  useLayoutEffect(() => {
    if (error) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [error]);
  const shownAtFields = error instanceof Problem && error.errors.length > 0 && error.errors.every((e) => fields.some((f) => isAt(e.path, f)));
  return (
    <form
      ref={form}
      class={kind}
      noValidate
      onSubmit={(e) => {
        e.preventDefault();
        onSubmit();
      }}
    >
      {children}
      {error && !shownAtFields && <ErrorNotice error={error} but={(e) => fields.some((f) => isAt(e.path, f))} />}
      <div class="row">
        <button type="submit" class="primary" aria-disabled={attempt.busy}>
          {submit}
        </button>
        {others}
        {onCancel && (
          <button type="button" onClick={onCancel}>
            Cancel
          </button>
        )}
      </div>
    </form>
  );
}

/** Properties that connect a field with its label, help and errors. */
export interface FieldProps {
  id: string;
  "aria-invalid": boolean | undefined;
  "aria-describedby": string | undefined;
}

interface Field {
  id: string;
  label: string;
  help?: ComponentChildren;
  class?: string;
  errors?: readonly FieldError[];
  children: (props: FieldProps) => ComponentChildren;
}

export function Field({ id, label, help, class: kind, errors = [], children }: Field) {
  const wrong = errors.length > 0;
  const described = [help !== undefined && `${id}-help`, wrong && `${id}-wrong`].filter((d) => d !== false).join(" ");
  return (
    <div class={kind}>
      <label for={id}>{label}</label>
      {children({ id, "aria-invalid": wrong || undefined, "aria-describedby": described || undefined })}
      {help !== undefined && (
        <p id={`${id}-help`} class="muted help">
          {help}
        </p>
      )}
      {wrong && (
        <p id={`${id}-wrong`} class="wrong" role="alert">
          {errors.map((e) => (e.value ? `${e.value}: ` : "") + `want ${e.want}`).join("; ")}
        </p>
      )}
    </div>
  );
}

export function NoteField({ id, note, onChange, error }: { id: string; note: string; onChange: (note: string) => void; error?: Error | undefined }) {
  return (
    <Field id={id} label="Reason, for the history" class="full" errors={errorsAt(error, "?note")}>
      {(props) => <input {...props} value={note} maxLength={1000} onInput={(e) => onChange(e.currentTarget.value)} />}
    </Field>
  );
}

/** A select with a label for each value. */
export function Choice({ props, of, value, onChange }: { props: FieldProps; of: readonly [string, string][]; value: string; onChange: (value: string) => void }) {
  return (
    <select {...props} value={value} onChange={(e) => onChange(e.currentTarget.value)}>
      {of.map(([v, says]) => (
        <option key={v} value={v}>
          {says}
        </option>
      ))}
    </select>
  );
}
