// Changes a rule after the user has seen the difference.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { call, type Rule, type RuleItem } from "../api.ts";
import { lineDiff } from "../linediff.ts";
import { yaml } from "../yaml.ts";
import { Confirm } from "./confirm.tsx";
import { Diff } from "./diff.tsx";
import { NoteField } from "./form.tsx";

interface Props {
  namespace: string;
  /** The rule in force. */
  item: RuleItem;
  next: Rule;
  title: string;
  yes: string;
  says: ComponentChildren;
  note: string;
  onClose: () => void;
  onDone: () => void;
}

/** Shows how the rule would change, and changes it unless somebody else has changed it meanwhile. */
export function ChangeRule({ namespace, item, next, title, yes, says, note: proposed, onClose, onDone }: Props) {
  const [note, setNote] = useState(proposed);
  const save = async (): Promise<void> => {
    await call("/v1/rules/" + encodeURIComponent(item.rule.id), { method: "PUT", query: { namespace, note: note || undefined }, json: next, ifMatch: item.revision, stay: true });
  };
  return (
    <Confirm title={title} yes={yes} no="Cancel" onYes={save} onDone={onDone} onClose={onClose} goes>
      {says}
      <Diff text={lineDiff(yaml(item.rule), yaml(next))} />
      <NoteField id="change-note" note={note} onChange={setNote} />
    </Confirm>
  );
}

export function isShadow(rule: Rule): boolean {
  return rule["on_limit"] === "shadow";
}

/** The rule with its limits enforced. */
export function enforced(rule: Rule): Rule {
  const { on_limit: _, ...others } = rule;
  return others as Rule;
}
