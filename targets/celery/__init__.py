"""Celery targets: one message to a queue for each attempt, whose worker reports the end.

Postgres decides that there is one execution for an occurrence. The broker only carries attempts to
workers, and the fence of the callback protocol (`store/steps/callbacks.py`) decides which messages
still count. The id of a task is `<execution id>:<attempt>`.

One attempt:

1. The replica hands the lease over to the attempt, which then has `queue_wait` until its first
   heartbeat.
2. It publishes the message and waits for the broker to confirm it. The message has the body and the
   headers of an HTTP target, with the callback URL and token.
3. `TenantcronTask` (`client/celery.py`) sends a heartbeat before it calls the task. If the attempt
   is over, it acknowledges the message and does nothing.
4. Heartbeats continue while the task runs. The result or the exception ends the attempt, and then
   the worker acknowledges the message.

Crash points:

- **Replica, before the hand-over.** Its lease expires; nothing was sent.
- **Replica, between hand-over and publish.** No heartbeat arrives within `queue_wait`: the attempt
  is lost and retried.
- **Replica, between publish and confirmation, or later.** The worker needs no replica.
- **Broker down, or no confirmation in time.** The attempt fails and is retried after the backoff of
  the schedule. If the broker has stored the message anyway, its worker gets 409 and drops it.
- **Broker killed with messages.** RabbitMQ keeps persistent messages in durable queues. Messages
  that are lost (Redis without a file) are attempts without a heartbeat.
- **Worker killed, RabbitMQ.** The message is unacknowledged, and RabbitMQ redelivers it at once.
  The next worker takes over when the heartbeat of the killed one is almost late, and repeats the
  same attempt, with the same idempotency key. Work that always kills its worker is repeated until
  the attempt's `timeout` at most.
- **Message redelivered, worker alive.** The acknowledgement took too long for the broker, or the
  connection was lost. The heartbeats of the two deliveries have different names. The second one is
  refused and dropped.
- **Worker killed, Redis.** Redis redelivers after its visibility timeout, which is an hour. The
  missed heartbeat comes first: the attempt is lost, and the next one is another message. The
  redelivered message gets 409.
- **Worker killed after the report, before the acknowledgement.** The redelivered message gets 409.
- **API down.** A worker waits for the answer to its first heartbeat before it starts, and repeats a
  report until the attempt would be lost anyway.
- **Cancel, timeout.** The answer to the next heartbeat cancels the work, or is 409. In the prefork
  pool the soft time limit of Celery also ends a task that does not look.
"""
