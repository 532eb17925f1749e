package sqlstore

import (
	"strings"

	"github.com/rowlock/rowlock/resources/views"
)

// computedForms are the forms of both databases. ARG is the argument.
var computedForms = map[string]string{
	"known":    "CASE WHEN o IS NOT NULL THEN",
	"deleted":  "{text metadata.deletionTimestamp} IS NOT NULL",
	"labels":   "{members metadata.labels}",
	"counted":  "SELECT count(*) FROM {each ARG}",
	"restarts": "SELECT coalesce(sum({count restartCount}), 0) FROM {each ARG}",
	// true is whether a condition of the object is true, and has whether there is one of this type.
	"true": "EXISTS (SELECT 1 FROM {each status.conditions} WHERE {member type} = 'ARG' AND {member status} = 'True')",
	"has":  "EXISTS (SELECT 1 FROM {each status.conditions} WHERE {member type} = 'ARG')",
	// zero is whether a number in an element is 0 or missing.
	"zero": "coalesce({member ARG} || '', '0') = '0'",
	// items joins the texts in a list, addresses those of a load balancer, and subjects the names of one kind.
	"items": "(SELECT {join} {item} {by n} FROM {each ARG})",
	"addresses": `(SELECT {join} address {by address COLLATE "C"} FROM (SELECT DISTINCT coalesce(nullif({member ip}, ''), {member hostname}) AS address
  FROM {each status.loadBalancer.ingress} ORDER BY 1) AS a WHERE address <> '')`,
	"subjects": "(SELECT {join} {member name} {spaced n} FROM {each subjects} WHERE {member kind} = 'ARG')",
	// more is what follows the first elements of a list with a number of elements.
	"more": "CASE WHEN ARG > 3 THEN ' + ' || (ARG - 3) || ' more...' ELSE '' END",
	// quota is the usage of the resources that are limits, or of those that are not.
	"quota": `(SELECT {join} resource || ': ' || coalesce(used, '0') || '/' || hard {spaced resource COLLATE "C"} FROM (SELECT key AS resource, max(hard) AS hard, max(used) AS used
  FROM (SELECT key, atom AS hard, NULL AS used FROM {members status.hard} UNION ALL SELECT key, NULL, atom FROM {members status.used}) AS a
  WHERE substr(key, 1, 7) ARG 'limits.' GROUP BY key ORDER BY key) AS q WHERE hard IS NOT NULL)`,

	// Of the status of a container: waits is why it waits, ended how it ended, and running whether it runs and is ready.
	"waits": "nullif({member state.waiting.reason}, '')",
	"ended": `coalesce(nullif({member state.terminated.reason}, ''), CASE WHEN {zero state.terminated.signal}
  THEN 'ExitCode:' || coalesce({member state.terminated.exitCode} || '', '0') ELSE 'Signal:' || {member state.terminated.signal} END)`,
	"running": "{is ready} AND {member state.running} IS NOT NULL AND {member state.terminated} IS NULL AND {waits} IS NULL",
	// failure is how the first container that failed ended.
	"failure": `(SELECT {ended} FROM {each status.containerStatuses}
  WHERE {waits} IS NULL AND {member state.terminated} IS NOT NULL AND NOT {zero state.terminated.exitCode} ORDER BY n LIMIT 1)`,
	// inits is the statuses of init containers, to select from. side is set for those that run beside the others, and over
	// for those after which the next one starts. stop is the number of the first that is not over.
	"inits": `(SELECT *, well OR side IS NOT NULL AND up AS over FROM (SELECT *, max(always) OVER (PARTITION BY name) AS side
  FROM (SELECT NULL AS always, n, {index} AS place, {member name} AS name, {count restartCount} AS restarts, coalesce({is ready}, false) AS ready,
    coalesce({is started}, false) AS up, {member state.terminated} IS NOT NULL AND {zero state.terminated.exitCode} AS well, {waits} AS waits,
    {member state.terminated} IS NOT NULL AS ended, nullif({member state.terminated.reason}, '') AS reason, {member state.terminated.exitCode} AS code,
    {zero state.terminated.signal} AS calm, {member state.terminated.signal} AS signal FROM {each status.initContainerStatuses}
  UNION ALL SELECT 1, NULL, NULL, {member name}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM {each spec.initContainers} WHERE {member restartPolicy} = 'Always') AS a) AS b WHERE n IS NOT NULL) AS i`,
	"stop": "(SELECT min(n) AS stop FROM {inits} WHERE NOT over) AS p",

	// result is how the request for the status of pools ended, summed whether its pools are counted, and pooled a sum.
	"result": "(SELECT {member type} FROM {each status.conditions} WHERE {member type} IN ('Complete', 'Failed') AND {member status} = 'True' ORDER BY n LIMIT 1)",
	"summed": "{text status} IS NOT NULL AND coalesce({result}, '') <> 'Failed'",
	"pooled": "CASE WHEN {summed} THEN (SELECT coalesce(sum({count ARG}), 0) FROM {each status.pools}) END",

	// responder is the active or, if there is none, the last responder to an eviction, and responding a text of its status.
	"responds": "{member state} IN ('Active', 'Canceled', 'Interrupted', 'Completed')",
	"responder": `(SELECT {member name} AS responder, {member state} AS state FROM {each status.targetResponders} WHERE {responds}
  ORDER BY CASE {member state} WHEN 'Active' THEN 0 ELSE 1 END, n DESC LIMIT 1) AS r`,
	"responding": `(SELECT found FROM (SELECT n, {member name} AS name, {member ARG} AS found FROM {each status.responders}) AS s, {responder}
  WHERE name = responder ORDER BY n LIMIT 1)`,
}

// computing has the forms of a database. PATH is the argument as a path; of two arguments, OTHER is the second.
type computing struct {
	path  func(views.Path) string
	forms map[string]string
}

// The forms: text is a text in the object, number a number, and set is whether a boolean is true. time is the seconds at
// a time in the object, and now those at present. each is the elements of a list, to select from, with their numbers, n;
// index is that from 0. item is an element that is a text; member is a text in an element, count a number, length the
// number of elements of a list, and is whether a boolean is true. part is a text in that member of an element whose name
// is the column source. within is the elements of a list in each element, numbered m, of another. join, by and spaced
// are around the texts that are joined, in an order, or in that of the rows where they have one. members is the members
// of an object, to select from, each with its key and its atom. group is the API group of the column version. plain makes
// letters those of ASCII. modes is the short forms of the access modes at a path.
var (
	computingSQLite = computing{objectPath, map[string]string{
		"text": "(o ->> PATH)", "number": "(o ->> PATH)", "set": "(o ->> PATH) = 1",
		"time": "unixepoch(o ->> PATH)", "now": "unixepoch()",
		"each":  "(SELECT key AS n, type, value FROM json_each(o -> PATH) WHERE typeof(key) = 'integer')",
		"index": "n", "item": "value",
		"member": "CASE type WHEN 'object' THEN value ->> PATH END", "count": "CASE type WHEN 'object' THEN value ->> PATH END",
		"length": "coalesce(CASE type WHEN 'object' THEN json_array_length(value, PATH) END, 0)",
		"is":     "CASE type WHEN 'object' THEN value ->> PATH END = 1",
		"part":   "CASE type WHEN 'object' THEN value -> source ->> PATH END",
		"within": `(SELECT s.key AS m, t.key AS n, t.type, t.value FROM json_each(o, PATH) s, json_each(CASE s.type WHEN 'object' THEN s.value END, OTHER) t
  WHERE typeof(s.key) = 'integer' AND typeof(t.key) = 'integer')`,
		"join": "group_concat(", "by": ", ',')", "spaced": ", ', ')",
		"members": "(SELECT key, atom FROM json_each(o, PATH) WHERE typeof(key) = 'text')",
		"group":   "substr(version, 1, instr(version, '/') - 1)", "plain": "",
		"modes": `(SELECT group_concat(m.value ->> '$[1]', ',') FROM json_each('[["ReadWriteOnce","RWO"],["ReadOnlyMany","ROX"],["ReadWriteMany","RWX"],["ReadWriteOncePod","RWOP"]]') m
  WHERE m.value ->> '$[0]' IN (SELECT atom FROM json_each(o, PATH)))`,
	}}
	computingPostgres = computing{postgresPath, map[string]string{
		"text": "(o #>> PATH)", "number": "(o #>> PATH)::numeric", "set": "(o #>> PATH) = 'true'",
		"time": "CASE WHEN o #>> PATH >= '0001' THEN floor(extract(epoch FROM (o #>> PATH)::timestamptz))::bigint END", // it has no year 0
		"now":  "floor(extract(epoch FROM now()))::bigint",
		"each": elements("PATH"), "whole": "",
		"index": "(n - 1)", "item": "(e #>> '{}')",
		"member": "(e #>> PATH)", "count": "(e #>> PATH)::numeric",
		"length": "CASE jsonb_typeof(e #> PATH) WHEN 'array' THEN jsonb_array_length(e #> PATH) ELSE 0 END",
		"is":     "(e #>> PATH) = 'true'",
		"part":   "(e -> source #>> PATH)",
		"within": `(SELECT m, n, e FROM jsonb_array_elements(CASE jsonb_typeof(o #> PATH) WHEN 'array' THEN o #> PATH END) WITH ORDINALITY AS s(whole, m),
  LATERAL jsonb_array_elements(CASE jsonb_typeof(whole #> OTHER) WHEN 'array' THEN whole #> OTHER END) WITH ORDINALITY AS t(e, n)) AS w`,
		"join": "string_agg(", "by": ", ',' ORDER BY ARG)", "spaced": ", ', ' ORDER BY ARG)",
		"members": "jsonb_each_text(CASE jsonb_typeof(o #> PATH) WHEN 'object' THEN o #> PATH END) AS m(key, atom)",
		"group":   "split_part(version, '/', 1)", "plain": ` COLLATE "C"`,
		"modes": `(SELECT string_agg(short, ',' ORDER BY n) FROM (VALUES (1, 'ReadWriteOnce', 'RWO'), (2, 'ReadOnlyMany', 'ROX'), (3, 'ReadWriteMany', 'RWX'),
  (4, 'ReadWriteOncePod', 'RWOP')) AS m(n, long, short) WHERE (o #> PATH) ? long)`,
	}}
)

// expand returns a text with its forms in the database's SQL.
func (c computing) expand(text string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "{")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		form, after, _ := strings.Cut(rest, "}")
		name, arg, _ := strings.Cut(form, " ")
		if both, ok := computedForms[name]; ok {
			b.WriteString(c.expand(strings.ReplaceAll(both, "ARG", arg)))
		} else {
			first, second, _ := strings.Cut(arg, " ")
			b.WriteString(strings.NewReplacer("PATH", c.pathOf(first), "OTHER", c.pathOf(second), "ARG", arg).Replace(c.forms[name]))
		}
		text = after
	}
}

func (c computing) pathOf(dotted string) string {
	return c.path(views.Members(strings.Split(dotted, ".")...))
}
