import { boundTo, may, who, type Scope } from './session'

/** A page of the dashboard: `g` and then its key goes there, and the palette finds it by its name and its other names. `whole`: it is about
 * the server, not about one queue. `scope`: a token needs it to see the page. `tenant`: a token that is bound to one value sees its part of
 * the page. `server`: a token that is bound to queues sees nothing of it. */
export interface Place { tenant?: boolean; server?: boolean; page: string; name: string; key: string; section?: string; also: string; whole?: boolean; scope?: Scope }

export const places: Place[] = [
  { tenant: true, page: 'overview', name: 'Overview', key: 'o', also: 'throughput backlog start' },
  { page: 'queues', name: 'All queues', key: 'q', also: 'alarms sparkline overview list', whole: true },
  { tenant: true, page: 'submissions', name: 'Submissions', key: 's', also: 'work chunks list' },
  { tenant: true, page: 'reservations', name: 'Reservations', key: 'v', also: 'held in flight overdue release' },
  { page: 'consumers', name: 'Consumers', key: 'c', also: 'workers attached drain' },
  { page: 'keys', name: 'Keys', key: 'k', also: 'meta values limits weights' },
  { page: 'fairness', name: 'Fairness', key: 'f', also: 'tenants ledgers lag shares' },
  { page: 'strategies', name: 'Strategies', key: 't', section: 'Decide', also: 'explain preview compare' },
  { server: true, page: 'plugins', name: 'Plugins', key: 'u', also: 'modules wasm scores upload', whole: true },
  { tenant: true, page: 'rules', name: 'Rules', key: 'r', also: 'pause block lift' },
  { page: 'schedules', name: 'Schedules', key: 'h', also: 'cron clock ticks next' },
  { tenant: true, page: 'failing', name: 'Failing now', key: 'w', section: 'Operate', also: 'retries errors tries again run now' },
  { tenant: true, page: 'dead-letters', name: 'Dead letters', key: 'l', also: 'failed errors redrive' },
  { page: 'operations', name: 'Operations', key: 'b', also: 'bulk running life-cycle lifecycle worker lag parked suspects grace' },
  { page: 'nodes', name: 'Nodes', key: 'n', also: 'cluster servers owners lease lag machines', whole: true },
  { server: true, page: 'activity', name: 'Activity', key: 'i', also: 'audit log who changed what history', whole: true, scope: 'admin' },
  { server: true, page: 'tokens', name: 'Tokens', key: 'a', also: 'access login scopes secrets who may', whole: true, scope: 'admin' },
  { page: 'settings', name: 'Settings', key: 'e', also: 'server version theme keyboard' },
]

/** Whether a page is offered. A page is not if it would only say that the token may not see it. */
export const offered = (p: Place) => (!p.scope || may(p.scope)) && (boundTo() ? p.tenant === true : !(p.server && who.value?.queues))
