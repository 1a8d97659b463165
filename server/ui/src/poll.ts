// Polls and loads data for pages.

import { useEffect, useRef, useState } from "preact/hooks";

import { clock, isAbort } from "./api.ts";

const every = 2_000;
const atMost = 10_000;

export interface Polled<T> {
  data: T | undefined;
  /** Why the last read failed; data is then older. */
  error: Error | undefined;
  /** When data was read, by the clock of the node. */
  at: number;
}

/**
 * Reads every 2 s by default, or up to every 10 s if a read is slow, and not while the page is hidden. Data of another
 * key is dropped.
 */
export function usePoll<T>(read: (signal: AbortSignal) => Promise<T>, key: string, interval = every): Polled<T> {
  const [state, setState] = useState<Polled<T> & { key: string }>({ key, data: undefined, error: undefined, at: 0 });
  const latest = useRef(read);
  latest.current = read;

  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    let reading = false;
    const refresh = async (): Promise<void> => {
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
        if (!stop.signal.aborted) timer = window.setTimeout(() => void refresh(), Math.min(atMost, Math.max(interval, 5 * (performance.now() - began))));
      }
    };
    const visible = (): void => void refresh();
    document.addEventListener("visibilitychange", visible);
    void refresh();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", visible);
    };
  }, [key]);

  return state.key === key ? state : { data: undefined, error: undefined, at: 0 };
}

export interface Loaded<T> {
  data: T | undefined;
  error: Error | undefined;
  loading: boolean;
}

/** Reads once per key. The last data stays until newer data arrives. */
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

/** The node's time, updated each second, for texts such as "5 s ago". */
export function useNow(): number {
  const [now, setNow] = useState(clock);
  useEffect(() => {
    const timer = window.setInterval(() => document.hidden || setNow(clock()), 1_000);
    return () => window.clearInterval(timer);
  }, []);
  return now;
}
