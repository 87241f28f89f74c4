// A worker for targets with `completion: callback`, in TypeScript for Node.js 20:
//
//   npx tsc --target es2022 --module nodenext --strict worker.ts && PORT=8080 node worker.js
//
// It needs the packages typescript and @types/node to compile, and none to run. It responds to each
// request with 202, works in the background, sends heartbeats, and reports the end.
// docs/targets-callback.md has the protocol. `work` is the part to replace.

import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

interface Attempt {
  /** Where to report; an action such as `:complete` is appended. */
  url: string;
  token: string;
  /** The longest time between two heartbeats, in seconds. */
  heartbeat: number;
}

interface Payload {
  steps?: number;
  fails?: string;
}

interface Answer {
  /** Whether the attempt has to stop, and why. */
  cancel?: boolean;
  reason?: string;
  /** The explanation of a problem. */
  detail?: string;
}

type Action = "heartbeat" | "complete" | "fail";
type Progress = (percent: number, text: string) => void;

/** An error that another attempt would meet again. */
class FinalError extends Error {}

/** The work itself; it returns a small JSON value. */
async function work(payload: Payload, signal: AbortSignal, progress: Progress): Promise<unknown> {
  const steps = payload.steps ?? 3;
  for (let step = 1; step <= steps; step++) {
    await sleep(100, undefined, { signal });
    progress(Math.floor((100 * step) / steps), `step ${step} of ${steps}`);
  }
  if (payload.fails) throw new FinalError(payload.fails);
  return { steps };
}

/** The API does not accept the values of a report. */
class RefusedError extends Error {}

/** The attempt is over: it was ended elsewhere, and no report on it is accepted. */
class OverError extends Error {}

/**
 * Send a report, again if its response is lost or the API is not available: a repeated report gets
 * the recorded outcome. Give up when the attempt is lost without a heartbeat.
 */
async function report(attempt: Attempt, action: Action, body: object): Promise<Answer> {
  const end = Date.now() + 1000 * attempt.heartbeat;
  for (;;) {
    let problem: string;
    try {
      const response = await fetch(`${attempt.url}:${action}`, {
        method: "POST",
        headers: { Authorization: `Bearer ${attempt.token}`, "Content-Type": "application/json" },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(Math.ceil(250 * attempt.heartbeat)),
      });
      problem = `${action}: HTTP ${response.status}`;
      if (response.status < 500 && response.status !== 429) {
        const answer = (await response.json()) as Answer;
        if (response.ok) return answer;
        problem = answer.detail ?? problem;
        throw response.status === 409 || response.status === 401
          ? new OverError(problem)
          : new RefusedError(problem);
      }
    } catch (error) {
      if (error instanceof OverError || error instanceof RefusedError) throw error;
      problem = `${action}: ${error}`;
    }
    if (Date.now() + 500 > end) throw new Error(problem);
    await sleep(500);
  }
}

/** Run one attempt: heartbeats in the background, then its end. */
async function run(attempt: Attempt, payload: Payload): Promise<void> {
  const stop = new AbortController();
  let latest: object = {};
  const beat = async (): Promise<void> => {
    try {
      const answer = await report(attempt, "heartbeat", latest);
      if (answer.cancel) stop.abort(new Error(answer.reason));
    } catch (error) {
      // The next heartbeat may arrive; an attempt that is over has no next one.
      if (error instanceof OverError) stop.abort(error);
      else console.error(error);
    }
  };
  const beats = setInterval(beat, (attempt.heartbeat * 1000) / 3);
  try {
    await beat();
    stop.signal.throwIfAborted();
    const progress: Progress = (percent, text) => {
      latest = { progress: percent, progress_text: text };
    };
    const result = await work(payload, stop.signal, progress);
    await report(attempt, "complete", { result, progress: 100 });
  } catch (error) {
    const cause = stop.signal.aborted ? stop.signal.reason : error;
    // The attempt has ended elsewhere, so there is nothing to report.
    if (cause instanceof OverError || error instanceof OverError) return console.error(String(cause));
    const message = cause instanceof Error ? cause.message : String(cause);
    await report(attempt, "fail", { message, retryable: !(error instanceof FinalError) });
  } finally {
    clearInterval(beats);
  }
}

function attemptOf(request: IncomingMessage): Attempt {
  const header = (name: string): string => String(request.headers[`x-tenantcron-${name}`] ?? "");
  return {
    url: header("callback-url"),
    token: header("callback-token"),
    heartbeat: Number(header("heartbeat")),
  };
}

const server = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  const attempt = attemptOf(request);
  if (!attempt.url || !attempt.token) {
    response.writeHead(400).end("the target needs `completion: callback`");
    return;
  }
  // A real worker stores the request before it accepts it, so that a restart does not lose it.
  response.writeHead(202).end();
  run(attempt, JSON.parse(body).payload as Payload).catch(console.error);
});

server.listen(Number(process.env.PORT ?? 8080), "127.0.0.1", () => {
  console.log(`listening on ${(server.address() as AddressInfo).port}`);
});
