package sqlstore

import (
	"strings"

	"github.com/rowlock/rowlock/resources/views"
)

// computedColumns are the values of columns of the kind views.Computed, by what they are: those that
// k8s.io/kubernetes/pkg/printers/internalversion prints. What is in braces is a form of both databases (computedForms),
// or of the one (computing), with a path or another argument.
var computedColumns = map[string]string{
	"pod ready": `{known} (({counted status.containerStatuses} WHERE {is ready} AND {member state.running} IS NOT NULL)
  + ({counted status.initContainerStatuses} WHERE {is ready} AND {is started} AND {sidecar})) || '/' ||
  (({counted spec.containers}) + ({counted spec.initContainers} WHERE {member restartPolicy} = 'Always')) END`,
	"pod restarts": `{known} CASE WHEN EXISTS (SELECT 1 FROM {each status.conditions} WHERE {member type} = 'Initialized' AND {member status} = 'False')
  THEN ({restarts status.initContainerStatuses}) ELSE ({restarts status.containerStatuses}) + ({restarts status.initContainerStatuses} WHERE {sidecar}) END END`,
	"service ports": `(SELECT {join} {member port} || coalesce(':' || {member nodePort}, '') || '/' || coalesce({member protocol}, 'TCP') {by n} FROM {each spec.ports})`,
	"node roles": `(SELECT {join} role {by role COLLATE "C"} FROM (SELECT DISTINCT CASE WHEN key = 'kubernetes.io/role' THEN atom ELSE substr(key, 25) END AS role
  FROM {labels} WHERE key = 'kubernetes.io/role' OR substr(key, 1, 24) = 'node-role.kubernetes.io/' ORDER BY 1) AS r WHERE role <> '')`,
	"node status": `{known} CASE WHEN {true Ready} THEN 'Ready' WHEN EXISTS (SELECT 1 FROM {each status.conditions} WHERE {member type} = 'Ready') THEN 'NotReady'
  ELSE 'Unknown' END || CASE WHEN {set spec.unschedulable} THEN ',SchedulingDisabled' ELSE '' END END`,
	"job completions": `{known} coalesce({text status.succeeded}, '0') || '/' || coalesce({text spec.completions},
  CASE WHEN {number spec.parallelism} > 1 THEN '1 of ' || {text spec.parallelism} ELSE '1' END) END`,
	"job status": `{known} CASE WHEN {true Complete} THEN 'Complete' WHEN {true Failed} THEN 'Failed' WHEN {text metadata.deletionTimestamp} IS NOT NULL THEN 'Terminating'
  WHEN {true Suspended} THEN 'Suspended' WHEN {true FailureTarget} THEN 'FailureTarget' WHEN {true SuccessCriteriaMet} THEN 'SuccessCriteriaMet' ELSE 'Running' END END`,
	"volume status": `CASE WHEN {text metadata.deletionTimestamp} IS NOT NULL THEN 'Terminating' ELSE {text status.phase} END`,
	"volume modes":  `{modes spec.accessModes}`,
	"claim modes":   `CASE WHEN {text spec.volumeName} <> '' THEN {modes status.accessModes} END`,
}

// computedForms are the forms of both databases. ARG is the argument.
var computedForms = map[string]string{
	"known":    "CASE WHEN o IS NOT NULL THEN",
	"counted":  "SELECT count(*) FROM {each ARG}",
	"restarts": "SELECT coalesce(sum({count restartCount}), 0) FROM {each ARG}",
	// sidecar is whether the status of an init container is that of one that runs beside the others.
	"sidecar": "{member name} IN (SELECT {member name} FROM {each spec.initContainers} WHERE {member restartPolicy} = 'Always')",
	// true is whether a condition of the object is true.
	"true": "EXISTS (SELECT 1 FROM {each status.conditions} WHERE {member type} = 'ARG' AND {member status} = 'True')",
}

// computing has the forms of a database. PATH is the argument as a path.
type computing struct {
	path  func(views.Path) string
	forms map[string]string
}

// The forms: text is a text in the object, number a number, and set is whether a boolean is true. each is the elements
// of a list, to select from; member is a text in an element, count a number, and is whether a boolean is true. join and
// by are around the texts that are joined, in an order, or in that of the rows where they have one. labels is the
// labels, to select from, each with its key and its atom. modes is the short forms of the access modes at a path.
var (
	computingSQLite = computing{objectPath, map[string]string{
		"text": "(o ->> PATH)", "number": "(o ->> PATH)", "set": "(o ->> PATH) = 1",
		"each":   "(SELECT type, value FROM json_each(o, PATH) WHERE typeof(key) = 'integer')",
		"member": "CASE type WHEN 'object' THEN value ->> PATH END", "count": "CASE type WHEN 'object' THEN value ->> PATH END",
		"is":   "CASE type WHEN 'object' THEN value ->> PATH END = 1",
		"join": "group_concat(", "by": ", ',')",
		"labels": "json_each(o, '$.metadata.labels')",
		"modes": `(SELECT group_concat(m.value ->> '$[1]', ',') FROM json_each('[["ReadWriteOnce","RWO"],["ReadOnlyMany","ROX"],["ReadWriteMany","RWX"],["ReadWriteOncePod","RWOP"]]') m
  WHERE m.value ->> '$[0]' IN (SELECT atom FROM json_each(o, PATH)))`,
	}}
	computingPostgres = computing{postgresPath, map[string]string{
		"text": "(o #>> PATH)", "number": "(o #>> PATH)::numeric", "set": "(o #>> PATH) = 'true'",
		"each":   elements("PATH"),
		"member": "(e #>> PATH)", "count": "(e #>> PATH)::numeric",
		"is":   "(e #>> PATH) = 'true'",
		"join": "string_agg(", "by": ", ',' ORDER BY ARG)",
		"labels": "jsonb_each_text(CASE jsonb_typeof(o #> '{metadata,labels}') WHEN 'object' THEN o #> '{metadata,labels}' END) AS l(key, atom)",
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
			path := c.path(views.Members(strings.Split(arg, ".")...))
			b.WriteString(strings.ReplaceAll(strings.ReplaceAll(c.forms[name], "PATH", path), "ARG", arg))
		}
		text = after
	}
}
