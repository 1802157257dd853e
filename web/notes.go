package web

import (
	"maps"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// propertyNotes says what each property of each schema means, with the limits that the engine keeps. The document is
// not made when one is missing or superfluous.
func propertyNotes() map[string]note {
	all := make(map[string]note)
	for _, part := range []map[string]note{problemNotes(), queueNotes(), statsNotes(), valueNotes(), submissionNotes(),
		chunkNotes(),
		reservationNotes(), strategyNotes(), pluginNotes(), previewNotes(), whyNotes(), diagnosisNotes(), explainNotes(), frameNotes(),
		serverNotes(), deadLetterNotes(), consumerNotes(), scheduleNotes(), ruleNotes(), pageNotes(), lifecycleNotes(),
		bulkNotes(), accessNotes(), auditNotes()} {
		for name, n := range part {
			all[name] = n
		}
	}
	return all
}

// between limits a number.
func between(least, most float64, text string) note {
	return note{text: text, least: &least, most: &most}
}

// oneOf limits a string to names.
func oneOf(text string, names ...string) note {
	n := note{text: text}
	for _, name := range names {
		n.enum = append(n.enum, name)
	}
	return n
}

const mostMilliseconds = float64(queue.MaxReservation / time.Millisecond)

func problemNotes() map[string]note {
	return map[string]note{
		"Problem.type":         {text: "Address of the explanation of this kind of problem"},
		"Problem.title":        {text: "The kind in words; the same every time"},
		"Problem.status":       {text: "The HTTP status"},
		"Problem.detail":       {text: "What is wrong this time, and what to do"},
		"Problem.instance":     {text: "Address of this occurrence"},
		"Problem.code":         {text: "Stable name of the kind; clients may switch on it"},
		"Problem.request_id":   {text: "Names the request in the server's log; also in the header X-Request-Id"},
		"Problem.errors":       {text: "All that was found wrong with the request"},
		"ProblemError.pointer": {text: "JSON pointer into the body, or /query/NAME, /header/NAME, /path/NAME"},
		"ProblemError.detail":  {text: "The rest of a sentence about it"},
	}
}

func queueNotes() map[string]note {
	out := map[string]note{
		"Queue.name":                  {text: "Name: 1 to 64 letters, digits, '_', '-' and '.'"},
		"Queue.settings":              {text: "The whole configuration"},
		"Queue.created_at":            {text: "When it was created"},
		"Queue.quarantined":           {text: "Why it does not serve while other queues do; absent: it serves"},
		"Quarantined.reason":          {text: "What is wrong with which file, and what to do"},
		"Quarantined.since":           {text: "The first start of the server at which it could not be opened; each start tries again"},
		"PutQueueRequest.settings":    {text: "What is left out gets its default"},
		"ChangeQueueRequest.settings": {text: "What is left out stays as it is"},
		"PageQueue.items":             {text: "The queues, by name"},
		"PageQueue.next":              {text: "Cursor of the next page; absent on the last"},
		"Backoff.base_ms":             {text: "Longest delay after the first try"},
		"Backoff.factor":              between(0, 100, "Growth from try to try, 1 or more; 0 with a base of 0"),
		"Backoff.cap_ms":              {text: "No delay is longer"},
	}
	noteFields(out, queue.AllSettings(), new(api.QueueSettings), false)
	noteFields(out, queue.AllSettings(), new(api.QueueSettingsInput), false)
	return out
}

func statsNotes() map[string]note {
	return map[string]note{
		"Stats.ready":    {text: "Chunks that can be reserved now"},
		"Stats.waiting":  {text: "Chunks that wait for a time"},
		"Stats.reserved": {text: "Chunks held by consumers"},
		"Stats.paused":   {text: "Chunks kept back by pause rules"},
		"Stats.blocked":  {text: "Chunks kept back by block rules"},
		"Stats.done":     {text: "Chunks of open submissions that are completed"},
		"Stats.skipped":  {text: "Chunks of open submissions that were given up"},
		"Stats.dead":     {text: "Dead chunks of open submissions"},
		"Stats.dead_letters": {text: "Dead chunks that can be redriven: dead, and those of submissions " +
			"that completed with dead ones"},
		"Stats.operations_ready":           {text: "Operations that the ready chunks stand for"},
		"Stats.submissions_open":           {text: "Submissions that have not ended"},
		"Stats.consumers_waiting":          {text: "Reserve calls that wait for work"},
		"Stats.oldest_ready_seconds":       {text: "Age of the oldest submission with a ready chunk; 0 when there is none"},
		"Stats.inserted_total":             {text: "Chunks inserted"},
		"Stats.reserved_total":             {text: "Chunks reserved"},
		"Stats.done_total":                 {text: "Chunks completed"},
		"Stats.failed_total":               {text: "Tries that failed"},
		"Stats.expired_total":              {text: "Deadlines that passed"},
		"Stats.outgoing":                   {text: "Dead letters on their way to another queue"},
		"Stats.forwarded_total":            {text: "Dead letters that went on to another queue"},
		"Stats.arrived_total":              {text: "Submissions that came as dead letters of another queue"},
		"Stats.bulk_operations_running":    {text: "Bulk operations that run"},
		"Stats.released_total":             {text: "Chunks given back unworked"},
		"Stats.lost_total":                 {text: "Reservations that ended because their consumer was lost"},
		"Stats.revoked_total":              {text: "Reservations that were taken from attached consumers, which were told so"},
		"Stats.consumers_attached":         {text: "Consumers that have a stream open"},
		"Stats.draining":                   between(0, 1, "1: inserts are refused by the queue's settings"),
		"Stats.empty":                      between(0, 1, "1: no submission is open"),
		"Stats.submissions_inserted_total": {text: "Submissions inserted"},
		"Stats.submissions_ended_total":    {text: "Submissions that ended, in any way"},
		"Stats.commits_total":              {text: "Group commits"},
		"Stats.commit_bytes_total":         {text: "Bytes of all group commits"},
		"Stats.journal_bytes":              {text: "Size of the journal on disk"},
		"Stats.store_bytes":                {text: "Size of the store on disk"},
		"Stats.disk_full":                  between(0, 1, "1: inserts are refused for want of room"),
	}
}

func valueNotes() map[string]note {
	out := map[string]note{
		"MetaKey.key":            {text: "The key"},
		"MetaKey.values":         {text: "Values that open submissions have or that something is set for"},
		"MetaKey.values_set":     {text: "Of them, those that something is set for"},
		"PageMetaKey.items":      {text: "The keys, by name"},
		"PageMetaKey.next":       {text: "Cursor of the next page; absent on the last"},
		"ValueCount.value":       {text: "The value"},
		"ValueCount.ready":       {text: "Ready chunks of submissions with the value"},
		"ValueCount.paused":      {text: "Such chunks that would be ready, but for a pause"},
		"ValueCount.blocked":     {text: "Such chunks that would be ready, but for a block"},
		"ValueCount.in_flight":   {text: "Chunks of such submissions that are held"},
		"ValueCount.submissions": {text: "Open submissions with the value"},
		"ValueCount.saturated":   {text: "Whether in_flight is at limit, or above it"},
		"ValueCount.saturated_since": {text: "From when on it has been at its limit whenever the server looked, once " +
			"a second, but for moments shorter than five seconds. null: it is not, or it is one of more than 10,000 " +
			"values and was not looked at", nullable: true},
		"ValueCount.etag":       {text: "Names what is set, for If-Match; absent when nothing is"},
		"ValueCount.changed_at": {text: "When it was set; absent when nothing is"},
		"PageValueCount.items":  {text: "The values"},
		"PageValueCount.next":   {text: "Cursor of the next page; absent on the last"},
		"Saturated.key":         {text: "The meta key"},
		"Saturated.value":       {text: "The value"},
		"Saturated.in_flight":   {text: "Chunks of submissions with the value that are held"},
		"Saturated.limit": {text: "The limit that is reached: of the strategy's own and the one set for " +
			"the value the smaller; of several branches the widest"},
	}
	for _, schema := range []string{"ValueCount", "ValueSettings"} {
		limit := between(0, queue.MaxValueLimit, "Most chunks in flight, for every reservation of the queue; null: no limit is set")
		weight := between(1./queue.DefaultWeight, queue.MaxWeight/queue.DefaultWeight,
			"Share under Fair, with up to three decimals; null: none is set, which counts as 1")
		limit.nullable, weight.nullable = true, true
		out[schema+".limit"], out[schema+".weight"] = limit, weight
	}
	return out
}

func submissionNotes() map[string]note {
	out := map[string]note{
		"NewSubmission.chunks":            {text: "The work, in exactly one of three forms"},
		"InsertManyRequest.atomic":        {text: "Insert all of them, or none when one is invalid or refused"},
		"InsertManyRequest.submissions":   {text: "At least one", items: queue.MaxInsertions},
		"BatchSubmission.idempotency_key": {text: "As the header Idempotency-Key of a single insert", length: queue.MaxIdempotencyKey},
		"InsertManyAnswer.results":        {text: "One per submission, in order"},
		"InsertResult.status":             oneOf("What became of the submission", "created", "replayed", "invalid", "refused"),
		"InsertResult.submission":         {text: "As a single insert answers it; absent when it was not inserted"},
		"InsertResult.code":               {text: "Stable name of the reason why it was not"},
		"InsertResult.detail":             {text: "The reason in words"},
		"InsertResult.pointer":            {text: "JSON pointer to what is wrong; of JSON lines, into the array that they stand for"},
		"Chunks.count":                    between(1, queue.MaxChunks, "Number of chunks, with prefix or template"),
		"Chunks.prefix":                   {text: "Contents lie in object storage at prefix + index", length: queue.MaxPrefixBytes},
		"Chunks.template":                 {text: "Content is this text with each {index} replaced", length: queue.MaxTemplateBytes},
		"Chunks.inline":                   {text: "One entry per chunk, each at most 1 MiB", items: queue.MaxInlineChunks},

		"Submission.id":    {text: "Names it for ever; ids grow with time"},
		"Submission.queue": {text: "The queue it is in"},
		"Submission.state": oneOf("All but open are final, save that a redrive opens completed_with_dead again", "open",
			"completed", "completed_with_dead", "failed", "cancelled", "expired"),
		"Submission.chunks":         {text: "Number of chunks"},
		"Submission.ready":          {text: "Can be reserved now, if a strategy and its limits let them"},
		"Submission.paused":         {text: "Would be ready, but a pause covers the submission"},
		"Submission.blocked":        {text: "Would be ready, but a block covers the submission"},
		"Submission.waiting":        {text: "Wait for a time: run_at or a retry"},
		"Submission.reserved":       {text: "Held by consumers"},
		"Submission.done":           {text: "Completed"},
		"Submission.dead":           {text: "Dead letters; in a failed submission, what ended it"},
		"Submission.forwarded":      {text: "Of the skipped ones, those that went on to another queue as dead letters"},
		"Submission.forwarded_from": {text: "It is a dead letter of another queue"},
		"Submission.skipped":        {text: "Given up; once it has ended, all that is neither done nor dead"},
		"Submission.created_at":     {text: "When it was inserted"},
		"Submission.finished_at":    {text: "When it left open"},
		"Submission.prefix":         {text: "As inserted"},
		"Submission.template":       {text: "As inserted"},
		"Submission.has_attachment": {text: "Whether it has an attachment"},
		"Submission.failure":        {text: "Why it failed: the last error of the chunk that ended it"},
		"Submission.failed_chunk": {text: "Index of the chunk that failed it: out of attempts, failed as fatal, or " +
			"one more than max_failed_chunks. Absent if it did not fail, or under a version that did not note it"},
		"Submission.trace":        {text: "W3C traceparent, and after ';' the tracestate"},
		"Submission.schedule":     {text: "Name of the schedule that inserted it"},
		"Submission.scheduled_at": {text: "The tick that it is for: when it was due by its schedule"},
		"WaitRequest.ids":         {text: "Whose end to wait for, of any queues", items: queue.MaxWaitIDs},
		"WaitRequest.wait_ms":     between(0, float64(queue.MaxWait.Milliseconds()), "How long to wait; 0 or absent: not at all"),
		"WaitRequest.all":         {text: "Answer when all have ended; absent: when one has"},
		"WaitAnswer.ended":        {text: "Those that have ended, in the order of the request"},
		"WaitAnswer.open":         {text: "How many of them are open"},
		"WaitAnswer.unknown":      {text: "Ids that are not known, in the order of the request; absent when there are none"},
		"PageSubmission.items":    {text: "The submissions, newest first"},
		"PageSubmission.next":     {text: "Cursor of the next page; absent on the last"},
	}
	for _, of := range []any{new(api.NewSubmission), new(api.NewSubmissionHead), new(api.Submission), new(api.SubmissionChange)} {
		noteFields(out, queue.SubmissionFields(), of, false)
	}
	for _, schema := range []string{"NewSubmission", "NewSubmissionHead", "Submission"} {
		out[schema+".meta"] = note{text: "What strategies see"}
		if schema != "Submission" {
			out[schema+".trace"] = note{text: "W3C traceparent, and after ';' the tracestate, for this submission: " +
				"in the place of the headers", length: queue.MaxTraceBytes}
			out[schema+".attachment"] = note{text: "At most 64 KiB of opaque bytes that go out with every reservation"}
		}
	}
	for name, n := range maps.Clone(out) {
		if field, is := strings.CutPrefix(name, "NewSubmission."); is {
			out["BatchSubmission."+field] = n // it has the same ones, and a key
		}
	}
	return out
}

// chunkNotes are about a submission's chunks and their outputs.
func chunkNotes() map[string]note {
	return map[string]note{
		"Chunk.index":        {text: "From 0"},
		"Chunk.state":        oneOf("Where it stands", "ready", "waiting", "reserved", "done", "dead", "skipped", "forwarded"),
		"Chunk.forwarded_to": {text: "Of a forwarded chunk: the queue that it went on to"},
		"Chunk.attempts":     {text: "Tries that ended without success"},
		"Chunk.not_before":   {text: "Of a waiting chunk: not handed out before"},
		"Chunk.consumer":     {text: "Of a reserved chunk: who holds it"},
		"Chunk.deadline":     {text: "Of a reserved chunk: until when"},
		"Chunk.error":        {text: "The last failure"},
		"Chunk.output":       {text: "Of a done chunk that has one"},
		"PageChunk.items":    {text: "The chunks, by index"},
		"PageChunk.next":     {text: "Cursor of the next page; absent on the last"},
		"Output.index":       {text: "Index of the chunk"},
		"Output.output":      {text: "What the consumer reported with complete"},
	}
}

func reservationNotes() map[string]note {
	out := map[string]note{
		"ReserveRequest.max":        between(1, queue.MaxReserve, "Most chunks to take"),
		"ReserveRequest.strategy":   {text: "What to take first; absent: Random", ref: "Strategy"},
		"ReserveRequest.consumer":   {text: "Name of the consumer, for people", length: queue.MaxConsumerBytes},
		"ReserveRequest.wait_ms":    between(0, float64(queue.MaxWait.Milliseconds()), "How long to wait while there is nothing"),
		"ReserveRequest.timeout_ms": between(0, mostMilliseconds, "Deadline from now; 0 or absent: the queue's"),
		"ReserveRequest.context":    {text: "What the consumer says about itself to plugins: at most 16 keys"},
		"Reservation.token":         {text: "Proof of holding the chunk; needed to finish it"},
		"Reservation.submission":    {text: "Id of the submission"},
		"Reservation.index":         {text: "Index of the chunk"},
		"Reservation.attempt":       {text: "1 for the first try"},
		"Reservation.deadline":      {text: "After it the chunk is offered again"},
		"Reservation.content":       {text: "What to work on"},
		"Reservation.meta":          {text: "Of the submission"},
		"Reservation.priority":      {text: "Of the submission"},
		"Reservation.attachment":    {text: "Of the submission"},
		"Reservation.trace":         {text: "W3C trace context of the insert"},
		"CompleteItem.output":       {text: "At most 1 MiB, kept with the chunk"},
		"FailItem.error":            {text: "Why; the first 1,000 bytes are kept"},
		"FailItem.fatal":            {text: "No further try"},
		"FailItem.retry_after_ms":   {text: "Delay of the next try, instead of retry_at; absent: the queue's back-off"},
		"ExtendItem.timeout_ms":     between(0, mostMilliseconds, "Deadline from now; 0 or absent: the queue's"),
		"Result.status":             oneOf("What became of the item", "ok", "already", "lost", "gone", "unknown", "invalid"),
		"Result.code":               {text: "Stable name of the reason"},
		"Result.detail":             {text: "The reason in words"},
		"Result.deadline":           {text: "After an extend: the new deadline"},
		"ResultsAnswer.results":     {text: "One per item, in order"},
		"FailItem.retry_at": {text: "When it is offered again, instead of retry_after_ms: at most 30 " +
			"days ahead; what has passed is at once"},
		"ExchangeRequest.consumer": {text: "In whose name chunks of extend are held again that the server " +
			"forgot at a restart; absent: that of reserve", length: queue.MaxConsumerBytes},
		"ExtendRequest.consumer": {text: "In whose name chunks are held again that the " +
			"server forgot at a restart", length: queue.MaxConsumerBytes},
		"ExchangeRequest.complete":    {text: "Chunks that are done", items: queue.MaxBatch},
		"ExchangeRequest.fail":        {text: "Tries that did not succeed", items: queue.MaxBatch},
		"ExchangeRequest.extend":      {text: "Deadlines to move", items: queue.MaxBatch},
		"ExchangeRequest.reserve":     {text: "What to reserve after that; absent: nothing"},
		"ExchangeAnswer.complete":     {text: "One result per item, in order"},
		"ExchangeAnswer.fail":         {text: "One result per item, in order"},
		"ExchangeAnswer.extend":       {text: "One result per item, in order"},
		"ExchangeAnswer.reservations": {text: "What was reserved"},
		"ReserveAnswer.reservations":  {text: "What was reserved, in the order of the strategy"},
		"CompleteRequest.items":       {text: "What was done", items: queue.MaxBatch},
		"FailRequest.items":           {text: "What did not succeed", items: queue.MaxBatch},
		"ExtendRequest.items":         {text: "What to hold longer", items: queue.MaxBatch},
		"ReleaseRequest.items":        {text: "What to give back", items: queue.MaxBatch},
	}
	for _, schema := range []string{"ReserveAnswer", "ExchangeAnswer"} {
		reason := oneOf("Why nothing was reserved; null when something was", "nothing", "all_limited", "paused",
			"not_yet_due", "all_skipped", "restart_grace", "quiet", "draining")
		reason.enum = append(reason.enum, nil)
		reason.nullable = true
		out[schema+".reason"] = reason
		out[schema+".retry_after_ms"] = note{text: "When to ask again, where that is known", nullable: true}
		out[schema+".limited"] = note{text: "With all_limited: some of the values that are at their " +
			"limit; absent otherwise", items: queue.MaxLimited}
		out[schema+".warnings"] = note{text: "Blocks of the strategy that are not scored, as their plugin, or its " +
			"version, is not there, not active, or out of use for now; absent when there is none"}
	}
	for _, schema := range []string{"CompleteItem", "FailItem", "ExtendItem", "ReleaseItem"} {
		out[schema+".token"] = note{text: "As the reservation gave it"}
	}
	return out
}

func strategyNotes() map[string]note {
	kinds := oneOf("What is the matter", strategy.WarnOffersNothing, strategy.WarnContradiction, strategy.WarnRepeatedFilter,
		strategy.WarnLimitNeverBind, strategy.WarnNoPreference, strategy.WarnHidden, strategy.WarnSharesNothing,
		strategy.WarnSameScores, strategy.WarnUnusable, strategy.WarnUnavailable)
	return map[string]note{
		"NamedStrategy.name":              {text: "Name: 1 to 64 letters, digits, '.', '_' and '-'"},
		"NamedStrategy.version":           {text: "From 1; each change makes the next. The last 100 are kept"},
		"NamedStrategy.strategy":          {text: "The canonical text"},
		"NamedStrategy.etag":              {text: "Names the version; for If-Match"},
		"NamedStrategy.created_at":        {text: "When the version was put"},
		"PageNamedStrategy.items":         {text: "The strategies, by name"},
		"PageNamedStrategy.next":          {text: "Cursor of the next page; absent on the last"},
		"StrategyRequest.strategy":        {text: "What to name or to validate; only to validate it may be a name", ref: "Strategy"},
		"StrategiesInUse.items":           {text: "Those that handed out most chunks first; at most 256"},
		"StrategiesInUse.since":           {text: "What was used before is not known: an hour ago, or later if the server started since"},
		"StrategyUse.strategy":            {text: "The canonical text"},
		"StrategyUse.consumers":           {text: "About how many names reserved by it in the last half hour to hour"},
		"StrategyUse.reserves_per_second": {text: "Over the last one to two minutes, empty ones included"},
		"StrategyUse.chunks_per_second":   {text: "Handed out, over the last one to two minutes"},
		"StrategyUse.last_used":           {text: "The end of the last reserve by it, to the second"},

		"ValidStrategy.strategy":  {text: "The canonical text"},
		"ValidStrategy.tree":      {text: "The canonical JSON", ref: "Strategy"},
		"ValidStrategy.branches":  {text: "What it compiles to, in the order in which it is asked"},
		"ValidStrategy.warnings":  {text: "What in it has no effect"},
		"StrategyWarning.kind":    kinds,
		"StrategyWarning.pointer": {text: "The block: a JSON pointer into the canonical JSON, below /strategy"},
		"StrategyWarning.detail":  {text: "The rest of a sentence about it"},
	}
}

func serverNotes() map[string]note {
	return map[string]note{
		"Version.version":       {text: "The release"},
		"Version.revision":      {text: "Of the source"},
		"Version.go":            {text: "The toolchain"},
		"ServerOptions.options": {text: "Every option, in the order of the server's help"},
		"ServerOption.option": {text: "Its name in a configuration file; the flag has '-' for '_', the environment " +
			"the same in capitals after QUERN_"},
		"ServerOption.value": {text: "What is in effect"},
		"ServerOption.source": {text: "Who had the last word: default, file PATH, environment, flag, or command " +
			"where a command such as dev decides"},
		"ServerOption.default": {text: "The value when none is given"},
		"ServerOption.limit":   {text: "What it may be, in words"},
		"ServerOption.help":    {text: "What it does"},
		"Readiness.ready":      {text: "Always true: what is not ready answers 503"},
		"Readiness.checks":     {text: "Every check, with ?verbose"},
		"Check.name":           {text: "What was checked"},
		"Check.ok":             {text: "Whether it works"},
		"Check.detail":         {text: "How it stands"},
	}
}
