import { useHealth } from "../health.ts";
import { AlertTable } from "../parts/alerts.tsx";
import { Badge, Empty, Loading } from "../parts/notices.tsx";
import { useNow } from "../poll.ts";

export function AlertsPage() {
  const state = useHealth();
  const now = useNow();
  const alerts = state?.alerts;
  const firing = alerts?.filter((a) => a.state === "firing") ?? [];
  const resolved = alerts?.filter((a) => a.state === "resolved") ?? [];
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Alerts</h1>
        {alerts && <p class="summary">{firing.length > 0 ? <Badge tone="bad">{firing.length} firing</Badge> : <Badge tone="good">none firing</Badge>}</p>}
        <p class="muted lead">The rules service evaluates these conditions from what nodes report. Webhooks receive each alert when it fires and when it is resolved.</p>
      </div>
      {!state && <Loading what="the alerts" />}
      {state && !alerts && <Empty title="The alerts cannot be read." />}
      {alerts && (
        <>
          <section aria-labelledby="firing-title">
            <h2 id="firing-title">Firing</h2>
            <AlertTable alerts={firing} now={now} label={{ by: "firing-title" }} empty="No alert fires." />
          </section>
          <section aria-labelledby="resolved-title">
            <h2 id="resolved-title">Resolved</h2>
            <AlertTable alerts={resolved} now={now} label={{ by: "resolved-title" }} empty="No alert was resolved lately." />
          </section>
        </>
      )}
    </>
  );
}
