package sqlstore

// computedColumns are the values of columns of the kind views.Computed, by what they are: those that
// k8s.io/kubernetes/pkg/printers/internalversion prints, or NULL where it prints a word for a missing value. What is in
// braces is a form of both databases (computedForms), or of the one (computing), with a path or another argument.
var computedColumns = map[string]string{
	"pod ready": `{known} (SELECT (CASE WHEN stop IS NULL OR {true Initialized} THEN ({counted status.containerStatuses} WHERE {running}) ELSE 0 END)
  + (SELECT count(*) FROM {inits} WHERE over AND ready AND NOT well AND (stop IS NULL OR n < stop)) FROM {stop}) || '/' ||
  (({counted spec.containers}) + ({counted spec.initContainers} WHERE {member restartPolicy} = 'Always')) END`,
	"pod status": `{known} CASE WHEN {deleted} AND {text status.reason} = 'NodeLost' THEN 'Unknown'
  WHEN {deleted} AND coalesce({text status.phase}, '') NOT IN ('Succeeded', 'Failed') THEN 'Terminating'
  ELSE (SELECT CASE WHEN reason <> 'Completed' OR NOT began THEN reason
  WHEN NOT EXISTS (SELECT 1 FROM {each status.containerStatuses} WHERE {running}) THEN coalesce({failure}, reason)
  WHEN {true Ready} THEN 'Running' ELSE coalesce({failure}, 'NotReady') END
  FROM (SELECT began, coalesce(CASE WHEN began THEN (SELECT coalesce({waits}, {ended}) FROM {each status.containerStatuses}
    WHERE {waits} IS NOT NULL OR {member state.terminated} IS NOT NULL ORDER BY n LIMIT 1) END, first,
    CASE WHEN EXISTS (SELECT 1 FROM {each status.conditions} WHERE {member type} = 'PodScheduled' AND {member reason} = 'SchedulingGated') THEN 'SchedulingGated' END,
    nullif({text status.reason}, ''), {text status.phase}, '') AS reason
  FROM (SELECT first IS NULL OR {true Initialized} AS began, first FROM (SELECT 'Init:' || coalesce(CASE WHEN ended THEN
    coalesce(reason, CASE WHEN calm THEN 'ExitCode:' || coalesce(code, '0') ELSE 'Signal:' || signal END) ELSE nullif(waits, 'PodInitializing') END,
    place || '/' || ({counted spec.initContainers})) AS first
    FROM (SELECT 1 AS one) AS o LEFT JOIN (SELECT * FROM {inits} WHERE NOT over ORDER BY n LIMIT 1) AS f ON one = 1 LIMIT 1) AS a LIMIT 1) AS b LIMIT 1) AS c) END END`,
	"pod restarts": `{known} (SELECT CASE WHEN stop IS NULL OR {true Initialized} THEN ({restarts status.containerStatuses})
  + (SELECT coalesce(sum(restarts), 0) FROM {inits} WHERE side IS NOT NULL AND (stop IS NULL OR n <= stop))
  ELSE (SELECT coalesce(sum(restarts), 0) FROM {inits} WHERE n <= stop) END FROM {stop}) END`,
	"pod gates": `(SELECT CASE WHEN count(*) > 0 THEN count(met) || '/' || count(*) END FROM (SELECT gate, max(held) OVER (PARTITION BY kind) AS met
  FROM (SELECT 1 AS gate, {member conditionType} AS kind, NULL AS held FROM {each spec.readinessGates}
  UNION ALL SELECT NULL, {member type}, 1 FROM {each status.conditions} WHERE {member status} = 'True') AS a) AS b WHERE gate = 1)`,
	"pod group policy": "{known} CASE WHEN {text spec.schedulingPolicy.gang} IS NOT NULL THEN 'Gang' ELSE 'Basic' END END",
	"pod group status": `{known} coalesce((SELECT {member reason} FROM {each status.conditions} WHERE {member type} = 'DisruptionTarget' ORDER BY n DESC LIMIT 1),
  CASE WHEN {true PodGroupInitiallyScheduled} THEN 'Scheduled' WHEN {has PodGroupInitiallyScheduled} THEN 'Unschedulable' ELSE 'Pending' END) END`,

	"service ports": `(SELECT {join} {member port} || coalesce(':' || {member nodePort}, '') || '/' || coalesce({member protocol}, 'TCP') {by n} FROM {each spec.ports})`,
	"service external ip": `{known} CASE {text spec.type} WHEN 'ExternalName' THEN {text spec.externalName}
  WHEN 'LoadBalancer' THEN (SELECT coalesce(given || ',' || own, given, own, '<pending>') FROM (SELECT {addresses} AS given, {items spec.externalIPs} AS own LIMIT 1) AS a)
  ELSE {items spec.externalIPs} END END`,
	"ingress hosts": `{known} (SELECT CASE WHEN count(*) = 0 THEN '*' ELSE {join} host {by n} || CASE WHEN count(*) = 3 AND max(place) + 1 < ({counted spec.rules})
  THEN ' + ' || (({counted spec.rules}) - 3) || ' more...' ELSE '' END END
  FROM (SELECT n, {index} AS place, {member host} AS host FROM {each spec.rules} WHERE {member host} <> '' ORDER BY n LIMIT 3) AS h) END`,
	"ingress addresses":        "{addresses}",
	"ingress ports":            "{known} CASE WHEN EXISTS (SELECT 1 FROM {each spec.tls}) THEN '80, 443' ELSE '80' END END",
	"ingress class parameters": `{text spec.parameters.kind} || coalesce('.' || {text spec.parameters.apiGroup}, '') || '/' || {text spec.parameters.name}`,
	"address parent": `lower({text spec.parentRef.resource} || coalesce('.' || nullif({text spec.parentRef.group}, ''), '') {plain})
  || coalesce('/' || nullif({text spec.parentRef.namespace}, ''), '') || '/' || {text spec.parentRef.name}`,
	// Three addresses, and three ports of each subset, suffice for the first three texts.
	"endpoints": `(SELECT (SELECT {join} address {by m, j, i} FROM (SELECT m, i, j, CASE WHEN j IS NULL THEN ip
  ELSE CASE WHEN ip LIKE '%:%' THEN '[' || ip || ']' ELSE ip END || ':' || port END AS address
  FROM (SELECT m, {index} AS i, {member ip} AS ip FROM {within subsets addresses} ORDER BY m, n LIMIT 3) AS a
  LEFT JOIN (SELECT m AS same, {index} AS j, {member port} AS port FROM {within subsets ports} WHERE {index} < 3) AS p ON same = m ORDER BY m, j, i LIMIT 3) AS f)
  || {more total} FROM (SELECT sum({length addresses} * CASE {length ports} WHEN 0 THEN 1 ELSE {length ports} END) AS total FROM {each subsets}) AS t)`,
	"slice ports": "(SELECT {join} CASE WHEN {index} < 3 THEN coalesce({member port} || '', {member name}, '*') END {by n} || {more count(*)} FROM {each ports})",
	"slice endpoints": `(SELECT {join} CASE WHEN place <= 3 THEN address END {by place} || {more count(*)}
  FROM (SELECT {item} AS address, row_number() OVER (ORDER BY m, n) AS place FROM {within endpoints addresses}) AS a)`,

	"node roles": `(SELECT {join} role {by role COLLATE "C"} FROM (SELECT DISTINCT CASE WHEN key = 'kubernetes.io/role' THEN atom ELSE substr(key, 25) END AS role
  FROM {labels} WHERE key = 'kubernetes.io/role' OR substr(key, 1, 24) = 'node-role.kubernetes.io/' ORDER BY 1) AS r WHERE role <> '')`,
	"node status": `{known} CASE WHEN {true Ready} THEN 'Ready' WHEN {has Ready} THEN 'NotReady'
  ELSE 'Unknown' END || CASE WHEN {set spec.unschedulable} THEN ',SchedulingDisabled' ELSE '' END END`,
	"job completions": `{known} coalesce({text status.succeeded}, '0') || '/' || coalesce({text spec.completions},
  CASE WHEN {number spec.parallelism} > 1 THEN '1 of ' || {text spec.parallelism} ELSE '1' END) END`,
	"job status": `{known} CASE WHEN {true Complete} THEN 'Complete' WHEN {true Failed} THEN 'Failed' WHEN {deleted} THEN 'Terminating'
  WHEN {true Suspended} THEN 'Suspended' WHEN {true FailureTarget} THEN 'FailureTarget' WHEN {true SuccessCriteriaMet} THEN 'SuccessCriteriaMet' ELSE 'Running' END END`,
	"job seconds":   "(coalesce({time status.completionTime}, {now}) - {time status.startTime})",
	"volume status": `CASE WHEN {deleted} THEN 'Terminating' ELSE {text status.phase} END`,
	"volume modes":  `{modes spec.accessModes}`,
	"claim modes":   `CASE WHEN {text spec.volumeName} <> '' THEN {modes status.accessModes} END`,
	"owning controller": `(SELECT lower(kind || CASE WHEN version LIKE '%/%' THEN '.' || {group} ELSE '' END {plain}) || '/' || name
  FROM (SELECT {member kind} AS kind, {member apiVersion} AS version, {member name} AS name FROM {each metadata.ownerReferences} WHERE {is controller} ORDER BY n LIMIT 1) AS c)`,

	"autoscaler targets": `(SELECT {join} CASE
  WHEN source IN ('resource', 'containerResource') THEN resource || ': ' || CASE WHEN average IS NULL THEN coalesce({part current.averageUtilization} || '%', '<unknown>') || '/' || coalesce(share || '%', '<auto>')
    ELSE CASE WHEN {part current} IS NULL THEN '<unknown>' ELSE coalesce({part current.averageValue}, '<nil>') END || '/' || average END
  WHEN source = 'pods' THEN CASE WHEN {part current} IS NULL THEN '<unknown>' ELSE coalesce({part current.averageValue}, '<nil>') END || '/' || coalesce(average, '<nil>')
  WHEN source NOT IN ('external', 'object') THEN '<unknown type>'
  WHEN average IS NULL THEN CASE WHEN {part current} IS NULL THEN '<unknown>' ELSE coalesce({part current.value}, '<nil>') END || '/' || coalesce(target, '<nil>')
  ELSE coalesce({part current.averageValue}, '<unknown>') || '/' || average || ' (avg)' END {spaced place}
  || CASE WHEN ({counted spec.metrics}) > 2 THEN ' + ' || (({counted spec.metrics}) - 2) || ' more...' ELSE '' END
  FROM (SELECT n AS same, {index} AS place, source, {part name} AS resource, {part target.averageValue} AS average, {part target.value} AS target, {part target.averageUtilization} AS share
    FROM (SELECT *, lower(substr({member type}, 1, 1) {plain}) || substr({member type}, 2) AS source FROM {each spec.metrics}) AS m WHERE {index} < 2) AS s
  LEFT JOIN {each status.currentMetrics} ON n = same)`,
	"quota requests": "{quota <>}",
	"quota limits":   "{quota =}",

	"event object": "{known} lower(coalesce({text involvedObject.kind}, '') {plain}) || coalesce('/' || nullif({text involvedObject.name}, ''), '') END",
	"event source": `{known} coalesce(nullif({text source.component}, ''), {text reportingComponent}, '')
  || coalesce(', ' || coalesce(nullif({text source.host}, ''), nullif({text reportingInstance}, '')), '') END`,
	"event first": "coalesce({text firstTimestamp}, {text eventTime})",
	"event last":  "coalesce({text series.lastObservedTime}, {text lastTimestamp}, {text firstTimestamp}, {text eventTime})",

	"subject users":    "{subjects User}",
	"subject groups":   "{subjects Group}",
	"subject accounts": `(SELECT {join} coalesce({member namespace}, '') || '/' || {member name} {spaced n} FROM {each subjects} WHERE {member kind} = 'ServiceAccount')`,
	"signing condition": `{known} CASE WHEN {has Denied} THEN 'Denied' WHEN {has Approved} THEN 'Approved' ELSE 'Pending' END
  || CASE WHEN {has Failed} THEN ',Failed' ELSE '' END || CASE WHEN {text status.certificate} <> '' THEN ',Issued' ELSE '' END END`,
	"pod certificate state": `{known} coalesce((SELECT {member type} FROM {each status.conditions}
  WHERE {member type} IN ('Issued', 'Denied', 'Failed') ORDER BY n DESC LIMIT 1), 'Pending') END`,
	"policy parameter": `CASE WHEN {text spec.paramRef.name} <> '' THEN coalesce(nullif({text spec.paramRef.namespace}, ''), '*') || '/' || {text spec.paramRef.name}
  ELSE {text spec.paramRef.selector} END`,
	"flow dangling": "{known} coalesce((SELECT {member status} FROM {each status.conditions} WHERE {member type} = 'Dangling' ORDER BY n LIMIT 1), '?') END",

	"migration resource": "{text spec.resource.resource} || coalesce('.' || nullif({text spec.resource.group}, ''), '')",
	"migration status": `{known} coalesce((SELECT {member type} FROM {each status.conditions}
  WHERE {member type} IN ('Running', 'Failed', 'Succeeded') AND {member status} = 'True' ORDER BY n DESC LIMIT 1), 'Unknown') END`,
	"storage versions": `(SELECT {join} CASE WHEN {index} < 3 THEN coalesce({member apiServerID}, '') || '=' || coalesce({member encodingVersion}, '') END {by n}
  || {more count(*)} FROM {each status.storageVersions})`,
	"claim state": `{known} CASE WHEN {text status.allocation} IS NOT NULL THEN CASE WHEN {deleted} THEN 'deleted,' ELSE '' END || 'allocated'
  || CASE WHEN EXISTS (SELECT 1 FROM {each status.reservedFor}) THEN ',reserved' ELSE '' END WHEN {deleted} THEN 'deleted' ELSE 'pending' END END`,
	"pools total":       "{pooled totalDevices}",
	"pools available":   "{pooled availableDevices}",
	"pools allocated":   "{pooled allocatedDevices}",
	"pools unavailable": "{pooled unavailableDevices}",
	"pools errors":      "CASE WHEN {summed} THEN ({counted status.pools} WHERE {member validationError} IS NOT NULL) END",
	"pools status": `{known} coalesce({result}, 'Pending') || CASE WHEN {result} = 'Complete' AND {number status.poolCount} > ({counted status.pools})
  THEN ' (' || ({counted status.pools}) || '/' || {text status.poolCount} || ' pools)' ELSE '' END END`,
	"pools completed": "CASE WHEN {result} = 'Complete' THEN (SELECT {member lastTransitionTime} FROM {each status.conditions} WHERE {member type} = 'Complete' AND {member status} = 'True' ORDER BY n LIMIT 1) END",

	"eviction target": "CASE WHEN {text spec.target.pod} IS NOT NULL THEN 'Pod' END",
	"eviction status": `{known} coalesce((SELECT {member type} || ' (' || {member reason} || ')' FROM {each status.conditions}
  WHERE {member type} IN ('TargetEvicted', 'Failed') AND {member status} = 'True' ORDER BY {member type} DESC LIMIT 1),
  CASE WHEN {number status.observedGeneration} > 0 THEN 'Progressing' ELSE 'Pending' END) END`,
	"eviction requesters": `(SELECT CASE WHEN count(asks) > 0 THEN min(asks {plain}) || CASE WHEN count(asks) > 1 THEN ' + ' || (count(asks) - 1) || ' more...' ELSE '' END
  WHEN count(*) > 0 THEN '<withdrawn>' END FROM (SELECT CASE WHEN {member intent} = 'Withdrawn' THEN NULL ELSE {member name} END AS asks FROM {each status.requesters}) AS r)`,
	"responder name": `{known} coalesce((SELECT responder FROM {responder}), '<unset>') || ' (' || ({counted status.targetResponders} WHERE {responds})
  || '/' || ({counted status.targetResponders}) || ')' END`,
	"responder state":     "(SELECT state FROM {responder})",
	"responder expected":  "{responding expectedCompletionTime}",
	"responder heartbeat": "{responding heartbeatTime}",
	"responder message":   "{responding message}",
}
