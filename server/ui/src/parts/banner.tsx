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
      {state.suspended.length > 0 && <SuspensionBanner list={state.suspended} session={session} />}
    </>
  );
}

function DegradedBanner({ state }: { state: State }) {
  const degraded = state.degraded;
  if (!degraded) return null;
  const since = degraded.since ? ` since ${stamp(degraded.since).slice(11, 16)}` : "";
  const where = degraded.of > 1 || degraded.nodes > 1 ? ` on ${degraded.nodes} of ${degraded.of} nodes` : "";
  return (
    <div class="banner" role="alert" data-banner="degraded">
      <p>
        <strong>
          Store unreachable{since}
          {where}.
        </strong>{" "}
        <Effect state={state} /> {sentence(short(degraded.reason))} <a href="/stores">Stores</a>
      </p>
    </div>
  );
}

function Effect({ state: { unlimited } }: { state: State }) {
  if (!unlimited || unlimited.rate === 0) return <>Rules with on_failure: open let every request pass.</>;
  const { open, others } = unlimited;
  return (
    <>
      {open.length > 0 && (
        <>
          Failing open: about {rate(unlimited.rate)} req/s pass unlimited under <RuleLinks ids={open} />.{" "}
        </>
      )}
      {others.length > 0 && (
        <>
          Not failing open: <RuleLinks ids={others} />.
        </>
      )}
    </>
  );
}

function RuleLinks({ ids }: { ids: readonly string[] }) {
  const shown = ids.slice(0, 3);
  return (
    <>
      {ids.length === 1 ? "the rule " : "the rules "}
      {shown.map((id, i) => (
        <span key={id}>
          {i > 0 && ", "}
          <a href={"/rules/" + encodeURIComponent(id)}>{id}</a>
        </span>
      ))}
      {ids.length > shown.length && ` and ${ids.length - shown.length} more`}
    </>
  );
}
