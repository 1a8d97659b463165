import { useEffect, useRef, useState } from "preact/hooks";

import { Notice, ErrorNotice } from "../parts/notices.tsx";
import { signIn, type Session } from "../session.ts";

export function SignIn({ session, onSignIn }: { session: Session; onSignIn: (session: Session) => void }) {
  const [error, setError] = useState<Error | undefined>();
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      onSignIn(await signIn(field.current?.value.trim() ?? ""));
    } catch (err) {
      setError(err as Error);
      setBusy(false);
      field.current?.select();
    }
  };

  if (session.service === "none") {
    return (
      <section class="narrow">
        <h1 tabIndex={-1}>Sign in</h1>
        <Notice tone="plain">
          <p>This node has no rules service. Its own state needs no token.</p>
          <p>
            <a href="/">See this node</a>
          </p>
        </Notice>
      </section>
    );
  }
  return (
    <section class="narrow">
      <h1 tabIndex={-1}>Sign in</h1>
      {session.notice !== "" && !error && <Notice tone="warn">{session.notice}</Notice>}
      {session.service === "unavailable" && <Notice tone="warn">The database of the rules service is unreachable.</Notice>}
      {!window.isSecureContext && (
        <Notice tone="warn">This page was loaded without TLS: others can read a token that is sent from here. Use a tunnel, or configure certificates.</Notice>
      )}
      <form class="card form" onSubmit={(e) => void submit(e)}>
        <label for="token">Token</label>
        <input
          id="token"
          ref={field}
          type="password"
          required
          autocomplete="off"
          spellcheck={false}
          placeholder="hg_…"
          aria-describedby="token-help"
          aria-invalid={error !== undefined}
        />
        <p id="token-help" class="muted">
          The first start of the rules service prints one. <code>headgate tokens create --role viewer</code> creates another. A node with <code>--rules FILE</code> uses the token of its{" "}
          <code>--admin-token-file</code>. The token is stored for this tab only.
        </p>
        {error && <ErrorNotice error={error} />}
        <div class="row">
          <button type="submit" class="primary" disabled={busy}>
            {busy ? "Signing in …" : "Sign in"}
          </button>
          <a href="/">See this node without a token</a>
        </div>
      </form>
    </section>
  );
}
