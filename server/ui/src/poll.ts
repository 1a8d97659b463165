// Looking again and again, as long as somebody can see it.

import { useEffect, useRef, useState } from "preact/hooks";

import { clock, isAbort } from "./api.ts";

const every = 2_000;
const atMost = 10_000;

export interface Polled<T> {
  data: T | undefined;
  /** Why the last look failed; what is shown is then of before. */
  error: Error | undefined;
  /** When data was read, by the clock of the node. */
  at: number;
}

/**
 * Reads every two seconds, or more slowly, up to every ten, where a look takes long, and not at all while the page is hidden. What was read for other
 * keys is forgotten.
 */
export function usePoll<T>(read: (signal: AbortSignal) => Promise<T>, key: string): Polled<T> {
  const [state, setState] = useState<Polled<T> & { key: string }>({ key, data: undefined, error: undefined, at: 0 });
  const latest = useRef(read);
  latest.current = read;

  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    let reading = false;
    const look = async (): Promise<void> => {
      if (reading || document.hidden) return;
      reading = true;
      window.clearTimeout(timer);
      const began = performance.now();
      try {
        const data = await latest.current(stop.signal);
        if (!stop.signal.aborted) setState({ key, data, error: undefined, at: clock() });
      } catch (err) {
        if (stop.signal.aborted || isAbort(err)) return;
        setState((was) => ({ ...(was.key === key ? was : { data: undefined, at: 0 }), key, error: err as Error }));
      } finally {
        reading = false;
        if (!stop.signal.aborted) timer = window.setTimeout(() => void look(), Math.min(atMost, Math.max(every, 5 * (performance.now() - began))));
      }
    };
    const shown = (): void => void look();
    document.addEventListener("visibilitychange", shown);
    void look();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [key]);

  return state.key === key ? state : { data: undefined, error: undefined, at: 0 };
}

export interface Loaded<T> {
  data: T | undefined;
  error: Error | undefined;
  loading: boolean;
}

/** Reads once for each key. What was read stays to be seen until there is something newer. */
export function useLoad<T>(read: (signal: AbortSignal) => Promise<T>, key: string): Loaded<T> & { again: () => void } {
  const [turn, setTurn] = useState(0);
  const [state, setState] = useState<Loaded<T>>({ data: undefined, error: undefined, loading: true });
  const latest = useRef(read);
  latest.current = read;
  useEffect(() => {
    const stop = new AbortController();
    setState((was) => ({ data: was.data, error: undefined, loading: true }));
    latest.current(stop.signal).then(
      (data) => stop.signal.aborted || setState({ data, error: undefined, loading: false }),
      (err: Error) => stop.signal.aborted || setState((was) => ({ data: was.data, error: err, loading: false })),
    );
    return () => stop.abort();
  }, [key, turn]);
  return { ...state, again: () => setTurn((n) => n + 1) };
}

/** The time of the node, each second, for what says how long ago something was. */
export function useNow(): number {
  const [now, setNow] = useState(clock);
  useEffect(() => {
    const timer = window.setInterval(() => document.hidden || setNow(clock()), 1_000);
    return () => window.clearInterval(timer);
  }, []);
  return now;
}
