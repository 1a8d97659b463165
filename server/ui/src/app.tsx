import { useEffect, useRef, useState } from "preact/hooks";

import { onTokenRefused } from "./api.ts";
import icon from "./icon.svg";
import { AlertsPage } from "./pages/alerts.tsx";
import { Audit } from "./pages/audit.tsx";
import { Clients } from "./pages/clients.tsx";
import { Explain } from "./pages/explain.tsx";
import { Fleet } from "./pages/fleet.tsx";
import { Overrides } from "./pages/overrides.tsx";
import { Overview } from "./pages/overview.tsx";
import { RulePage } from "./pages/rule.tsx";
import { Rules } from "./pages/rules.tsx";
import { SignIn } from "./pages/signin.tsx";
import { Stores } from "./pages/stores.tsx";
import { Tokens } from "./pages/tokens.tsx";
import { Webhooks } from "./pages/webhooks.tsx";
import { HealthContext, useFleetState } from "./health.ts";
import { Banner } from "./parts/banner.tsx";
import { Empty, Loading } from "./parts/notices.tsx";
import { Shortcuts } from "./parts/shortcuts.tsx";
import { MenuIcon } from "./parts/menuicon.tsx";
import { followLinks, go, menuGroups, menuOf, nameOf, usePlace, type Place } from "./route.ts";
import { covers, forget, keepNamespace, powers, resume, start, type Session } from "./session.ts";
import { setTheme, theme, themes } from "./theme.ts";

export function App() {
  const [session, setSession] = useState<Session | undefined>();
  const place = usePlace();
  const state = useFleetState(session);
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => void resume().then(setSession), []);

  // The same address shows another page after signing in or out.
  const path = JSON.stringify([place.page, place.rule, place.query.has("new"), session?.who?.id]);
  useEffect(() => {
    document.title = `${place.rule ?? nameOf(place.page)} · Headgate`;
    showCurrentEntry();
    if (first.current) {
      first.current = session === undefined;
      return;
    }
    // Users of a screen reader or the keyboard continue at the new page, unless a field has taken the focus.
    const now = document.activeElement;
    if (!now?.matches("input, textarea") || !main.current?.contains(now)) main.current?.querySelector("h1")?.focus();
    window.scrollTo(0, 0);
  }, [path, session === undefined]);

  const signOut = (notice = ""): void => {
    forget();
    setSession({ ...start, notice });
    // Other pages ask for a token in place and then continue.
    if (notice === "") go("/");
    else if (place.page === "overview" || place.page === "fleet") go("/signin");
  };
  onTokenRefused(() => signOut("The token is no longer valid. Sign in again."));
  const onSignIn = (made: Session): void => {
    setSession(made);
    if (place.page === "signin") go("/", true);
  };

  return (
    <div class="app" onClick={followLinks}>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header class="top">
        <a class="brand" href="/">
          <img src={icon} alt="" width="22" height="22" /> Headgate
        </a>
        {session && session.service !== "none" && (
          <nav aria-label="Pages of the console">
            {menuGroups(session).map(([title, entries]) => (
              <div class="menu-group" key={title}>
                <span class="menu-title">{title}</span>
                {entries.map((m) => (
                  <a key={m.page} href={m.path} aria-current={m.page === place.page ? "page" : undefined}>
                    <MenuIcon of={m.page} />
                    {m.name}
                  </a>
                ))}
              </div>
            ))}
          </nav>
        )}
        <div class="tools">
          {session?.who && <NamespaceField session={session} onChange={(namespace) => setSession({ ...session, namespace })} />}
          <ThemeSwitch />
          {session?.who ? (
            <>
              <span class="who" title={`Signed in as ${session.who.id}`}>
                {session.who.id} <span class="muted">{session.who.role}</span>
              </span>
              <button type="button" onClick={() => signOut()}>
                Sign out
              </button>
            </>
          ) : (
            session && session.service !== "none" && place.page !== "signin" && (
              <a class="button" href="/signin">
                Sign in
              </a>
            )
          )}
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        <Banner state={state} session={session} />
        <HealthContext.Provider value={state}>
          {session ? <Shown place={place} session={session} onSignIn={onSignIn} /> : <Loading what="the state of this node" />}
        </HealthContext.Provider>
      </main>
      <Shortcuts api={session?.service === "available"} menu={session && session.service !== "none" ? menuOf(session) : []} />
    </div>
  );
}

/** Scrolls the menu of a small screen to the current page. */
function showCurrentEntry(): void {
  const entry = document.querySelector<HTMLElement>("nav a[aria-current]");
  const nav = entry?.closest("nav");
  if (entry && nav) nav.scrollLeft = entry.offsetLeft - (nav.clientWidth - entry.offsetWidth) / 2;
}

interface ShownProps {
  place: Place;
  session: Session;
  onSignIn: (session: Session) => void;
}

function Shown({ place, session, onSignIn }: ShownProps) {
  const { namespace } = session;
  if (place.page === "fleet" || (place.page === "overview" && !session.who)) return <Fleet session={session} />;
  if (place.page === "nothing") {
    return (
      <Empty title="This page does not exist.">
        <p>
          <a href="/">Overview</a>
        </p>
      </Empty>
    );
  }
  if (place.page === "signin" || !session.who) return <SignIn session={session} onSignIn={onSignIn} />;
  if (place.page === "overview") return <Overview key={namespace} session={session} />;
  if (place.page === "stores") return <Stores key={namespace} session={session} />;
  if (place.page === "alerts") return <AlertsPage />;
  if (place.page === "rules" && place.rule !== undefined) return <RulePage key={`${namespace} ${place.rule}`} session={session} id={place.rule} />;
  if (place.page === "rules") return <Rules key={namespace} session={session} query={place.query} />;
  if (place.page === "explain") return <Explain key={namespace} namespace={namespace} query={place.query} />;
  if (place.page === "clients") return <Clients key={`${namespace} ${place.query.has("registered")}`} session={session} query={place.query} />;
  if (place.page === "overrides") return <Overrides key={namespace} session={session} query={place.query} />;
  if (!powers(session).all) return <Empty title="Only admins can see this page." />;
  if (place.page === "webhooks") return <Webhooks key={namespace} namespace={namespace} />;
  return place.page === "audit" ? <Audit /> : <Tokens session={session} query={place.query} />;
}

/** The namespace: one of the token's, or any if the token is for all. */
function NamespaceField({ session, onChange }: { session: Session; onChange: (namespace: string) => void }) {
  const { who, namespace } = session;
  const [text, setText] = useState(namespace);
  if (!who) return null;
  const choose = (value: string): void => {
    const name = value.trim() || "default";
    setText(name);
    if (name === namespace || !covers(who, name)) return;
    keepNamespace(name);
    onChange(name);
  };
  if (!who.namespaces.includes("*")) {
    return (
      <>
        <label for="namespace" class="muted">
          Namespace
        </label>
        <select id="namespace" title="Namespace" value={namespace} onChange={(e) => choose(e.currentTarget.value)}>
          {who.namespaces.map((n) => (
            <option key={n}>{n}</option>
          ))}
        </select>
      </>
    );
  }
  return (
    <form
      class="inline"
      onSubmit={(e) => {
        e.preventDefault();
        choose(text);
      }}
    >
      <label for="namespace" class="muted">
        Namespace
      </label>
      <input
        id="namespace"
        class="namespace"
        title="Namespace"
        value={text}
        onInput={(e) => setText(e.currentTarget.value)}
        onBlur={(e) => choose(e.currentTarget.value)}
      />
    </form>
  );
}

function ThemeSwitch() {
  const [value, setValue] = useState(theme);
  const next = themes[(themes.indexOf(value) + 1) % themes.length] ?? "auto";
  return (
    <button
      type="button"
      class="theme"
      title={`Colours: ${value}. Press for ${next}.`}
      aria-label={`Colours: ${value}. Press for ${next}.`}
      onClick={() => {
        setTheme(next);
        setValue(next);
      }}
    >
      <span aria-hidden="true">{value === "auto" ? "◐" : value === "light" ? "○" : "●"}</span>
    </button>
  );
}
