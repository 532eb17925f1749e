package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// turnAnnotation changes with every write. Its value always has turnDigits digits, so that it can be replaced inside an encoded object.
	turnAnnotation = "bench/turn"
	turnDigits     = 19
	// groupLabel divides the pods into groups of equal size, for the list with a label selector.
	groupLabel = "bench-group"
	groups     = 10
)

// turnMark stands before the value of turnAnnotation in an object as servers encode it.
var turnMark = []byte(`"` + turnAnnotation + `":"`)

// template is an encoded object with placeholders for the parts that differ between objects.
type template []byte

// The placeholders of a template. They are not valid in any object.
const (
	namePlace  = "<name>"
	groupPlace = "<group>"
)

func encodeTemplate(object any) (template, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // the placeholders stay as they are
	if err := encoder.Encode(object); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// fill returns the encoded object with this name, in the group of seq, with its turn set.
func (t template) fill(name string, seq int, turn int64) []byte {
	text := bytes.Replace(t, []byte(namePlace), []byte(name), 1)
	text = bytes.Replace(text, []byte(groupPlace), strconv.AppendInt(nil, int64(seq%groups), 10), 1)
	setTurn(text, turn)
	return text
}

// setTurn replaces the turn inside an encoded object, and says whether there was one.
func setTurn(object []byte, turn int64) bool {
	at := bytes.Index(object, turnMark)
	if at < 0 {
		return false
	}
	value := object[at+len(turnMark):][:turnDigits]
	copy(value, fmt.Sprintf("%0*d", turnDigits, turn))
	return true
}

// turnOf returns the turn inside an encoded object, or 0.
func turnOf(object []byte) int64 { return numberAfter(object, turnMark) }

// revisionMark stands before the resourceVersion of an encoded object or list.
var revisionMark = []byte(`"resourceVersion":"`)

// revisionOf returns the first resourceVersion inside an encoded object, list or event, which is its own.
func revisionOf(object []byte) int64 { return numberAfter(object, revisionMark) }

// numberAfter returns the decimal number behind the first occurrence of mark, or 0.
func numberAfter(text, mark []byte) int64 {
	at := bytes.Index(text, mark)
	if at < 0 {
		return 0
	}
	var number int64
	for _, digit := range text[at+len(mark):] {
		if digit < '0' || digit > '9' {
			break
		}
		number = number*10 + int64(digit-'0')
	}
	return number
}

// podTemplate is a pod of the usual size: about 4.8 KB of JSON as the server stores it, its managedFields included.
func podTemplate() (template, error) {
	container := func(name string) corev1.Container {
		return corev1.Container{
			Name:  name,
			Image: "registry.example.com/team/" + name + ":1.27.3",
			Args:  []string{"--config=/etc/" + name + "/config.yaml", "--log-level=info"},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			Env: []corev1.EnvVar{
				{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				{Name: "SERVICE_URL", Value: "https://" + name + ".example.com"},
			},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
			}},
			VolumeMounts:   []corev1.VolumeMount{{Name: "config", MountPath: "/etc/" + name, ReadOnly: true}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)}}},
		}
	}
	return encodeTemplate(&corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        namePlace,
			Labels:      map[string]string{"app": "bench", "pod-template-hash": "6d4b75cb6d", groupLabel: groupPlace},
			Annotations: map[string]string{turnAnnotation: strings.Repeat("0", turnDigits), "example.com/notes": strings.Repeat("measured ", 40)},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{container("web"), container("sidecar")},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "web-config"},
			}}}},
			Tolerations: []corev1.Toleration{{Key: "example.com/edge", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		},
	})
}

// configMapTemplate is the body of server-side apply: a ConfigMap of eight keys and 1 KB.
func configMapTemplate() (template, error) {
	data := map[string]string{}
	for i := range 8 {
		data[fmt.Sprintf("key-%d", i)] = strings.Repeat("value ", 20)
	}
	return encodeTemplate(&corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        namePlace,
			Labels:      map[string]string{groupLabel: groupPlace},
			Annotations: map[string]string{turnAnnotation: strings.Repeat("0", turnDigits)},
		},
		Data: data,
	})
}
