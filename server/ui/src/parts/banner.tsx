// The banners of every page while limits are not enforced as the rules say.

import { failuresOf, headingOf, type Failure } from "../failure.ts";
import { plural, rate, sentence, short } from "../format.ts";
import type { State } from "../health.ts";
import type { Session } from "../session.ts";
import { SuspensionBanner } from "./enforcement.tsx";

export function Banner({ state, session }: { state: State | undefined; session: Session | undefined }) {
  if (!state) return null;
  return (
    <>
      <FailureBanner state={state} />
      {state.suspended.length > 0 && <SuspensionBanner state={state} session={session} />}
    </>
  );
}

/** The number of namespaces with a sentence of their own. */
const most = 3;

function FailureBanner({ state }: { state: State }) {
  const failures = failuresOf(state);
  if (failures.length === 0) return null;
  return (
    <div class={failures.every((f) => f.ended) ? "banner caution" : "banner"} role="alert" data-banner="degraded">
      {failures.slice(0, most).map((f) => (
        <FailureText key={f.namespace ?? ""} of={f} />
      ))}
      {failures.length > most && <p>The same in {plural(failures.length - most, "more namespace", "more namespaces")}.</p>}
    </div>
  );
}

/** Such as: Failing open since 12:03 on 2 of 3 nodes: about 40 req/s unlimited under the rules a, b. */
function FailureText({ of: failure }: { of: Failure }) {
  const { ended, fallback, reason, namespace } = failure;
  const open = fallback?.open_rules ?? [];
  const others = fallback?.other_rules ?? [];
  return (
    <p>
      <strong>
        {headingOf(failure)}
        {open.length > 0 ? ": " : ". "}
      </strong>
      {open.length > 0 ? (
        <>
          about {rate(fallback?.unlimited_per_second ?? 0)} req/s {ended ? "passed " : ""}unlimited under <RuleLinks ids={open} count={fallback?.open_rule_count} linked={!namespace} />.{" "}
        </>
      ) : (
        others.length === 0 && <>Rules with on_failure: open {ended ? "let these requests pass" : failure.unreachable ? "let every request pass" : "let them pass"}. </>
      )}
      {others.length > 0 && (
        <>
          Not failing open: <RuleLinks ids={others} linked={!namespace} />.{" "}
        </>
      )}
      {sentence(short(reason, 200))} <a href="/stores">Stores</a>
    </p>
  );
}

/** The first rules, and the number of the others. Pages of rules are of the namespace that is shown. */
function RuleLinks({ ids, linked, count = ids.length }: { ids: readonly string[]; linked: boolean; count?: number | undefined }) {
  const shown = ids.slice(0, 3);
  return (
    <>
      {count === 1 ? "the rule " : "the rules "}
      {shown.map((id, i) => (
        <span key={id}>
          {i > 0 && ", "}
          {linked ? <a href={"/rules/" + encodeURIComponent(id)}>{id}</a> : id}
        </span>
      ))}
      {count > shown.length && ` and ${count - shown.length} more`}
    </>
  );
}
