// The banners of every page while limits are not enforced as the rules say.

import { failureOf, headingOf } from "../failure.ts";
import { rate, sentence, short } from "../format.ts";
import type { State } from "../health.ts";
import type { Session } from "../session.ts";
import { SuspensionBanner } from "./enforcement.tsx";

export function Banner({ state, session }: { state: State | undefined; session: Session | undefined }) {
  if (!state) return null;
  return (
    <>
      <DegradedBanner state={state} />
      {state.suspended.length > 0 && <SuspensionBanner state={state} session={session} />}
    </>
  );
}

/** Such as: Failing open since 12:03 on 2 of 3 nodes: about 40 req/s unlimited under the rules a, b. */
function DegradedBanner({ state }: { state: State }) {
  const failure = failureOf(state);
  if (!failure) return null;
  const { ended, fallback, reason } = failure;
  const open = fallback?.open_rules ?? [];
  const others = fallback?.other_rules ?? [];
  return (
    <div class={ended ? "banner caution" : "banner"} role="alert" data-banner="degraded">
      <p>
        <strong>
          {headingOf(failure)}
          {open.length > 0 ? ": " : ". "}
        </strong>
        {open.length > 0 ? (
          <>
            about {rate(fallback?.unlimited_per_second ?? 0)} req/s {ended ? "passed" : ""} unlimited under <RuleLinks ids={open} count={fallback?.open_rule_count} />.{" "}
          </>
        ) : (
          others.length === 0 && <>Rules with on_failure: open {ended ? "let these requests pass" : "let every request pass"}. </>
        )}
        {others.length > 0 && (
          <>
            Not failing open: <RuleLinks ids={others} />.{" "}
          </>
        )}
        {sentence(short(reason, 200))} <a href="/stores">Stores</a>
      </p>
    </div>
  );
}

/** Links to the first rules, and the number of the others. */
export function RuleLinks({ ids, count = ids.length }: { ids: readonly string[]; count?: number | undefined }) {
  const shown = ids.slice(0, 3);
  return (
    <>
      {count === 1 ? "the rule " : "the rules "}
      {shown.map((id, i) => (
        <span key={id}>
          {i > 0 && ", "}
          <a href={"/rules/" + encodeURIComponent(id)}>{id}</a>
        </span>
      ))}
      {count > shown.length && ` and ${count - shown.length} more`}
    </>
  );
}
