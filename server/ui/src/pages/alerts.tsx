import { failuresOf } from "../failure.ts";
import { useHealth } from "../health.ts";
import { AlertTable } from "../parts/alerts.tsx";
import { Badge, Empty, Loading } from "../parts/notices.tsx";
import { useNow } from "../poll.ts";

export function AlertsPage() {
  const state = useHealth();
  const now = useNow();
  const alerts = state?.alerts;
  const current = alerts?.filter((a) => a.state === "firing" || a.state === "pending") ?? [];
  const past = alerts?.filter((a) => a.state === "resolving" || a.state === "resolved") ?? [];
  const firing = current.filter((a) => a.state === "firing").length;
  const failing = state !== undefined && failuresOf(state).length > 0;
  const quiet = failing ? "No alert fires yet. Calls of a store fail: see the banner." : "No alert fires.";
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Alerts</h1>
        {alerts && (
          <p class="summary">
            {firing > 0 && <Badge tone="bad">{firing} firing</Badge>}
            {current.length > firing && <Badge tone="warn">{current.length - firing} pending</Badge>}
            {current.length === 0 && !failing && <Badge tone="good">none firing</Badge>}
          </p>
        )}
        <p class="muted lead">
          The rules service evaluates these conditions from what nodes report. A condition that holds is pending until it has held for some time; then its alert fires. Webhooks receive each alert when it fires and when it is resolved.
        </p>
      </div>
      {!state && <Loading what="the alerts" />}
      {state && !alerts && <Empty title="The alerts cannot be read." />}
      {alerts && (
        <>
          <section aria-labelledby="firing-title">
            <h2 id="firing-title">Now</h2>
            <AlertTable alerts={current} namespace={state?.namespace} now={now} label={{ by: "firing-title" }} empty={quiet} />
          </section>
          <section aria-labelledby="resolved-title">
            <h2 id="resolved-title">Resolved</h2>
            <AlertTable alerts={past} namespace={state?.namespace} now={now} label={{ by: "resolved-title" }} empty="No alert was resolved lately." />
          </section>
        </>
      )}
    </>
  );
}
