package builtin

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rowlock/rowlock/resources"
)

// RuntimeConfig enables versions and resources that are off by default, and disables others. Its zero value serves what
// kube-apiserver serves by default: generally available versions.
type RuntimeConfig struct {
	classes   map[string]bool
	versions  map[schema.GroupVersion]bool
	resources map[schema.GroupVersionResource]bool
}

// versionClasses are the keys that stand for many versions. A later one overrides an earlier one.
var versionClasses = []struct {
	key     string
	pattern *regexp.Regexp
}{
	{"api/all", regexp.MustCompile(`^`)},
	{"api/ga", generallyAvailable},
	{"api/beta", regexp.MustCompile(`^v\d+beta\d+$`)},
	{"api/alpha", regexp.MustCompile(`^v\d+alpha\d+$`)},
}

var generallyAvailable = regexp.MustCompile(`^v\d+$`)

// ParseRuntimeConfig parses the form of kube-apiserver's --runtime-config: api/all, api/ga, api/beta, api/alpha,
// group/version and group/version/resource, with the core group written as v1. The error is kube-apiserver's.
func ParseRuntimeConfig(config map[string]string) (RuntimeConfig, error) {
	config = withoutLegacyKeys(config)
	c := RuntimeConfig{map[string]bool{}, map[schema.GroupVersion]bool{}, map[schema.GroupVersionResource]bool{}}
	if len(config) == 1 && config["api/all"] == "false" {
		return c, errors.New("invalid runtime-config with only api/all=false")
	}
	for _, class := range versionClasses {
		value, ok := config[class.key]
		if ok && value != "true" && value != "false" {
			return c, fmt.Errorf("invalid value %s=%s", class.key, value)
		}
		if ok {
			c.classes[class.key] = value == "true"
			delete(config, class.key)
		}
	}
	if err := checkGroups(config); err != nil {
		return c, err
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if err := c.set(key, config[key]); err != nil {
			return c, err
		}
	}
	return c, nil
}

// withoutLegacyKeys copies a configuration, with the core group's version in the form of the others, and without
// obsolete keys.
func withoutLegacyKeys(config map[string]string) map[string]string {
	plain := map[string]string{}
	for key, value := range config {
		name := strings.TrimPrefix(key, "api/")
		switch {
		case key == "api/legacy":
		case name == "v1" || strings.HasPrefix(name, "v1/"):
			plain["/"+name] = value
		default:
			plain[key] = value
		}
	}
	return plain
}

// checkGroups refuses malformed keys and unknown groups.
func checkGroups(config map[string]string) error {
	unknown := sets.New[string]()
	for key := range config {
		parts := strings.Split(key, "/")
		if len(parts) != 2 && len(parts) != 3 {
			return fmt.Errorf("runtime-config invalid key %s", key)
		}
		if gv := (schema.GroupVersion{Group: parts[0], Version: parts[1]}); !Scheme.IsGroupRegistered(gv.Group) {
			unknown.Insert(gv.String())
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("unknown api groups %s", strings.Join(sets.List(unknown), ","))
	}
	return nil
}

// set applies one key that names a version, or a resource of one.
func (c *RuntimeConfig) set(key, value string) error {
	parts := strings.Split(key, "/")
	gv := schema.GroupVersion{Group: parts[0], Version: parts[1]}
	if !Scheme.IsVersionRegistered(gv) {
		return fmt.Errorf("group version %s that has not been registered", gv)
	}
	on := value == ""
	if !on {
		var err error
		if on, err = strconv.ParseBool(value); err != nil {
			return fmt.Errorf("invalid value of %s: %s, err: %w", key, value, err)
		}
	}
	if len(parts) == 2 {
		c.versions[gv] = on
		return nil
	}
	if strings.ToLower(parts[2]) != parts[2] {
		return fmt.Errorf("invalid key %s: group/version/resource and resource is always lowercase plural, not %q", key, parts[2])
	}
	c.resources[gv.WithResource(parts[2])] = on
	return nil
}

// serves reports whether a resource is served in a version: a key for the resource overrides one for the version, and
// that one for a class of versions.
func (c RuntimeConfig) serves(gvr schema.GroupVersionResource) bool {
	if on, ok := c.resources[gvr]; ok {
		return on
	}
	if on, ok := c.versions[gvr.GroupVersion()]; ok {
		return on
	}
	on := generallyAvailable.MatchString(gvr.Version)
	for _, class := range versionClasses {
		if value, ok := c.classes[class.key]; ok && class.pattern.MatchString(gvr.Version) {
			on = value
		}
	}
	return on
}

// served returns the enabled part of groups.
func (c RuntimeConfig) served(groups []resources.GroupSpec) []resources.GroupSpec {
	var left []resources.GroupSpec
	for _, g := range groups {
		versions := g.Versions
		g.Versions = nil
		for _, v := range versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
			v.Types = slices.DeleteFunc(slices.Clone(v.Types), func(t *resources.Type) bool { return !c.serves(gv.WithResource(t.Resource)) })
			if len(v.Types) > 0 {
				g.Versions = append(g.Versions, v)
			}
		}
		if len(g.Versions) > 0 {
			left = append(left, g)
		}
	}
	return left
}
