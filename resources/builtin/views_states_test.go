package builtin

import (
	"fmt"
	"math/rand"
	"strings"
)

// states makes objects in many states, as JSON, for the comparison of what is computed from them.
type states struct{ *rand.Rand }

// of returns one of the choices.
func (s states) of(choices ...string) string { return choices[s.Intn(len(choices))] }

// some returns a list of up to most elements.
func (s states) some(most int, element func(i int) string) string {
	elements := make([]string, s.Intn(most+1))
	for i := range elements {
		elements[i] = element(i)
	}
	return "[" + strings.Join(elements, ",") + "]"
}

// either returns a list of some of the choices, each at most once, in any order.
func (s states) either(choices ...string) string {
	order := s.Perm(len(choices))
	return s.some(len(choices), func(i int) string { return choices[order[i]] })
}

func (s states) conditions(types ...string) string {
	for i, t := range types {
		types[i] = fmt.Sprintf(`{"type":%q,"status":%q,"reason":"R%d","lastTransitionTime":"2026-01-02T03:04:05Z"}`, t, s.of("True", "True", "False", "Unknown"), i)
	}
	return s.either(types...)
}

func (s states) time() string { return s.of("null", `"2026-01-02T03:04:05Z"`) }

// deleted returns more metadata.
func (s states) deleted() string {
	return s.of("", "", `,"deletionTimestamp":"2026-01-02T03:04:05Z","deletionGracePeriodSeconds":30`)
}

func (s states) container(name string) string {
	state := s.of("{}", `{"running":{}}`, `{"running":{}}`, `{"waiting":{}}`, `{"waiting":{"reason":"CrashLoopBackOff"}}`, `{"waiting":{"reason":"PodInitializing"}}`,
		`{"terminated":{"exitCode":0}}`, `{"terminated":{"exitCode":0,"reason":"Completed"}}`, `{"terminated":{"exitCode":0,"reason":"Completed"}}`, `{"terminated":{"exitCode":0,"signal":9}}`,
		`{"terminated":{"exitCode":1}}`, `{"terminated":{"exitCode":137,"signal":9}}`, `{"terminated":{"exitCode":2,"reason":"Error"}}`, `{"terminated":{"exitCode":3,"reason":"Completed"}}`,
		`{"running":{},"terminated":{"exitCode":0,"reason":"Completed"}}`, `{"running":{},"waiting":{"reason":"Odd"}}`)
	return fmt.Sprintf(`{"name":%q,"image":"x","imageID":"","restartCount":%d,"ready":%s%s,"state":%s,"lastState":%s}`, name, s.Intn(4), s.of("true", "true", "false"),
		s.of("", `,"started":true`, `,"started":true`, `,"started":false`), state, s.of("{}", `{"terminated":{"exitCode":1,"finishedAt":"2026-01-02T03:04:05Z"}}`))
}

func (s states) pod() string {
	inits := 0
	specs := s.some(4, func(i int) string {
		inits++
		return fmt.Sprintf(`{"name":"i%d"%s}`, i, s.of("", `,"restartPolicy":"Always"`, `,"restartPolicy":"Never"`))
	})
	conditions := strings.TrimSuffix(s.conditions("Ready", "Initialized", "example.com/a", "example.com/b"), "]")
	if conditions != "[" {
		conditions += ","
	}
	conditions += s.of(`{"type":"PodScheduled","status":"True"}`, `{"type":"PodScheduled","status":"True"}`, `{"type":"PodScheduled","status":"False","reason":"SchedulingGated"}`) + "]"
	return s.deleted() + `},"spec":{"initContainers":` + specs + `,"containers":[{"name":"c0"},{"name":"c1"},{"name":"c2"}],"readinessGates":` +
		s.either(`{"conditionType":"example.com/a"}`, `{"conditionType":"example.com/b"}`, `{"conditionType":"example.com/c"}`) +
		`},"status":{"phase":"` + s.of("Pending", "Running", "Running", "Succeeded", "Failed", "Unknown") + `","reason":"` + s.of("", "", "", "Evicted", "NodeLost", "Completed") +
		`","conditions":` + conditions + `,"initContainerStatuses":` + s.some(inits, func(i int) string { return s.container(fmt.Sprint("i", i)) }) +
		`,"containerStatuses":` + s.some(3, func(i int) string { return s.container(fmt.Sprint("c", i)) }) + "}}"
}

func (s states) metric(kind, source string, status bool) string {
	name, value := "", func(member, v string) string { return s.of("", fmt.Sprintf(`,%q:%s`, member, v)) }
	if source == "resource" || source == "containerResource" {
		name = `"name":"cpu",`
	}
	values := value("averageValue", `"500m"`) + value("value", `"7"`) + value("averageUtilization", "50")
	if status {
		return fmt.Sprintf(`{"type":%q,%q:{%s"current":{%s}}}`, kind, source, name, strings.TrimPrefix(values, ","))
	}
	return fmt.Sprintf(`{"type":%q,%q:{%s"target":{"type":"Value"%s}}}`, kind, source, name, values)
}

func (s states) autoscaler() string {
	metrics := []string{"Resource", "Pods", "External", "Object", "ContainerResource"}
	order := s.Perm(len(metrics))
	of := func(status bool) string {
		return s.some(4, func(i int) string {
			kind := metrics[order[i]]
			if status && s.Intn(8) == 0 {
				kind = metrics[order[4]]
			}
			return s.metric(kind, strings.ToLower(kind[:1])+kind[1:], status)
		})
	}
	return `},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3,"metrics":` + of(false) + `},"status":{"currentMetrics":` + of(true) + "}}"
}

func (s states) quota() string {
	amounts := func(of string) string {
		return strings.NewReplacer("[", "{", "]", "}").Replace(s.either(`"pods":"`+of+`"`, `"limits.cpu":"`+of+`"`, `"limits.memory":"`+of+`"`, `"requests.cpu":"`+of+`"`, `"Limits":"`+of+`"`,
			`"count/a.b":"`+of+`"`, `"limitsx":"`+of+`"`, `"Z.example/z":"`+of+`"`, `"_":"`+of+`"`))
	}
	return `},"status":{"hard":` + amounts("2500m") + `,"used":` + amounts("1Gi") + "}}"
}

func (s states) addresses() string {
	return s.some(5, func(int) string {
		return s.of(`{"ip":"10.0.0.2"}`, `{"ip":"10.0.0.10"}`, `{"ip":"fd00::1"}`, `{"hostname":"b.example"}`, `{"hostname":"B.example"}`, `{"ip":"10.0.0.1","hostname":"a.example"}`, "{}")
	})
}

func (s states) subjects() string {
	return `},"roleRef":{"kind":"Role","name":"r"},"subjects":` + s.some(5, func(i int) string {
		return fmt.Sprintf(`{"kind":%q,"name":"n%d","namespace":%q}`, s.of("User", "Group", "ServiceAccount", "Other"), i, s.of("", "a"))
	}) + "}"
}

func (s states) parameter() string {
	return `},"spec":{"policyName":"p"` + s.of("", `,"paramRef":{"name":"n"}`, `,"paramRef":{"name":"n","namespace":"a"}`, `,"paramRef":{"selector":{}}`, `,"paramRef":{}`) + "}}"
}

func (s states) eviction() string {
	name := func(i int) string { return fmt.Sprintf("r%d.example.com", i) }
	return `},"spec":{"target":` + s.of("{}", `{"pod":{"name":"p","uid":"u"}}`) + `},"status":{"observedGeneration":` + s.of("null", "0", "3") + `,"conditions":` + s.conditions("TargetEvicted", "Failed", "Other") +
		`,"requesters":` + s.some(3, func(i int) string {
		return fmt.Sprintf(`{"name":%q,"intent":%q}`, name(9-i), s.of("Eviction", "Withdrawn"))
	}) +
		`,"targetResponders":` + s.some(4, func(i int) string {
		return fmt.Sprintf(`{"name":%q,"priority":1,"state":%q}`, name(i), s.of("Inactive", "Active", "Interrupted", "Canceled", "Completed"))
	}) + `,"responders":` + s.some(4, func(i int) string { return fmt.Sprintf(`{"name":%q,"message":"m%d"}`, name(i), i) }) + "}}"
}
