// The banners of every page while limits are not enforced as the rules say.

import { rate, sentence, short, stamp } from "../format.ts";
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
function DegradedBanner({ state: { degraded, fallbacks } }: { state: State }) {
  if (!degraded) return null;
  const fallback = fallbacks[0];
  const open = fallback?.open_rules ?? [];
  const others = fallback?.other_rules ?? [];
  const since = degraded.since ? ` since ${stamp(degraded.since).slice(11, 16)}` : "";
  const where = degraded.of > 1 || degraded.nodes > 1 ? ` on ${degraded.nodes} of ${degraded.of} nodes` : "";
  return (
    <div class="banner" role="alert" data-banner="degraded">
      <p>
        <strong>
          {open.length > 0 ? "Failing open" : "Store unreachable"}
          {since}
          {where}
          {open.length > 0 ? ": " : ". "}
        </strong>
        {open.length > 0 ? (
          <>
            about {rate(fallback?.unlimited_per_second ?? 0)} req/s unlimited under <RuleLinks ids={open} count={fallback?.open_rule_count} />.{" "}
          </>
        ) : (
          others.length === 0 && <>Rules with on_failure: open let every request pass. </>
        )}
        {others.length > 0 && (
          <>
            Not failing open: <RuleLinks ids={others} />.{" "}
          </>
        )}
        {sentence(short(reasonOf(degraded.reason), 200))} <a href="/stores">Stores</a>
      </p>
    </div>
  );
}

/** The error of a store without the name of a package and the system's own words, which the log has. */
export function reasonOf(error: string): string {
  return error.replace(/^(redis: )?redisstore: /, "Redis ").replace(/^(Redis \S+): is /, "$1 is ").replace(/ \((dial|read|write|context) [^)]*\)/, "");
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
