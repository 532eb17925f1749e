package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	flagzv1alpha1 "k8s.io/apiserver/pkg/server/flagz/api/v1alpha1"
	flagzv1beta1 "k8s.io/apiserver/pkg/server/flagz/api/v1beta1"
	statuszv1alpha1 "k8s.io/apiserver/pkg/server/statusz/api/v1alpha1"
	statuszv1beta1 "k8s.io/apiserver/pkg/server/statusz/api/v1beta1"
	"k8s.io/component-base/zpages/features"

	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/status"
)

// zpage is a page for people who inspect a component of Kubernetes (KEP-4827, KEP-4828): a text, or an object in one of two versions of
// config.k8s.io.
type zpage struct {
	kind string
	// media are the encodings, in order of preference.
	media     []string
	text      func() string
	versioned map[string]func() runtime.Object // by version
}

// zComponent is kube-apiserver's name for itself in these pages.
const zComponent = "apiserver"

const zHead = "\n%s %s\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for " +
	"debugging purposes only.\n"

// zMedia returns the encodings of the pages, in order of preference.
func zMedia(offer *codec.Offer) []string {
	media := []string{codec.JSON, codec.YAML, "text/plain"}
	if offer.CBOR() {
		media = append(media, codec.CBOR)
	}
	return media
}

// hasStatusz and hasFlagz tell whether the pages exist; feature gates can disable them.
func (s *Server) hasStatusz() bool { return s.Features.Enabled(features.ComponentStatusz) }
func (s *Server) hasFlagz() bool {
	return s.Flags != nil && s.Features.Enabled(features.ComponentFlagz)
}

// serve writes the page. Without an Accept header, or with */*, the response is the text; an object must be requested by its kind.
func (z zpage) serve(c echo.Context) error {
	r := c.Request()
	if strings.TrimSpace(r.Header.Get("Accept")) == "" {
		return c.Blob(http.StatusOK, "text/plain; charset=utf-8", []byte(z.text()))
	}
	for _, clause := range goautoneg.ParseAccept(r.Header.Get("Accept")) {
		for _, media := range z.media {
			typ, sub, _ := strings.Cut(media, "/")
			if clause.Type != "*" && clause.Type != typ || clause.SubType != "*" && clause.SubType != sub {
				continue
			}
			kind, group, v := clause.Params["as"], clause.Params["g"], clause.Params["v"]
			if media == "text/plain" {
				if kind == "" && group == "" && v == "" {
					return c.Blob(http.StatusOK, "text/plain; charset=utf-8", []byte(z.text()))
				}
				continue
			}
			if make, ok := z.versioned[v]; ok && group == flagzv1beta1.GroupName && kind == z.kind {
				return z.object(c, media, v, make())
			}
		}
	}
	return status.NotAcceptable(strings.Join(z.media, ", "))
}

func (z zpage) object(c echo.Context, media, v string, obj runtime.Object) error {
	data, err := codec.Value(obj, codec.Format{Media: media, Pretty: codec.WantsPretty(c.Request())})
	if err != nil {
		return err
	}
	if v == flagzv1alpha1.SchemeGroupVersion.Version {
		c.Response().Header().Set("Warning", fmt.Sprintf("299 - %q",
			"This version of the "+strings.ToLower(z.kind)+" endpoint is deprecated. Please use a newer version."))
	}
	return c.Blob(http.StatusOK, fmt.Sprintf("%s;g=%s;v=%s;as=%s", media, flagzv1beta1.GroupName, v, z.kind), data)
}

func zType(kind, v string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: flagzv1beta1.GroupName + "/" + v}
}

// flagz returns the page with the server's flags.
func flagz(flags map[string]string, media []string) zpage {
	text := func() string {
		var b strings.Builder
		fmt.Fprintf(&b, zHead, zComponent, "flagz")
		for _, name := range slices.Sorted(maps.Keys(flags)) {
			fmt.Fprintf(&b, "%s=%s\n", name, flags[name])
		}
		return b.String()
	}
	m := metav1.ObjectMeta{Name: zComponent}
	return zpage{kind: "Flagz", media: media, text: text, versioned: map[string]func() runtime.Object{
		"v1beta1": func() runtime.Object {
			return &flagzv1beta1.Flagz{TypeMeta: zType("Flagz", "v1beta1"), ObjectMeta: m, Flags: flags}
		},
		"v1alpha1": func() runtime.Object {
			return &flagzv1alpha1.Flagz{TypeMeta: zType("Flagz", "v1alpha1"), ObjectMeta: m, Flags: flags}
		},
	}}
}

// statusz returns the page with the start time, the version and the paths of further pages.
func statusz(started time.Time, paths, media []string) zpage {
	now := func() statuszv1beta1.Statusz {
		info := upstream.Version()
		return statuszv1beta1.Statusz{ObjectMeta: metav1.ObjectMeta{Name: zComponent}, StartTime: metav1.NewTime(started.UTC()),
			UptimeSeconds: int64(time.Since(started).Seconds()), GoVersion: info.GoVersion, BinaryVersion: strings.TrimPrefix(info.GitVersion, "v"),
			EmulationVersion: info.EmulationMajor + "." + info.EmulationMinor, Paths: paths}
	}
	text := func() string {
		s := now()
		up := s.UptimeSeconds
		return fmt.Sprintf(zHead, zComponent, "statusz") + fmt.Sprintf("\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\n"+
			"Binary version: %s\nEmulation version: %s\nPaths: %s\n", s.StartTime.Format(time.UnixDate), up/3600, up/60%60, up%60,
			s.GoVersion, s.BinaryVersion, s.EmulationVersion, strings.Join(s.Paths, " "))
	}
	return zpage{kind: "Statusz", media: media, text: text, versioned: map[string]func() runtime.Object{
		"v1beta1": func() runtime.Object {
			s := now()
			s.TypeMeta = zType("Statusz", "v1beta1")
			return &s
		},
		"v1alpha1": func() runtime.Object {
			s := statuszv1alpha1.Statusz(now())
			s.TypeMeta = zType("Statusz", "v1alpha1")
			return &s
		},
	}}
}
