package controllers

import (
	"context"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	informersv1 "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/certificates/approver"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"
	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
)

// Signing says which authorities sign CertificateSigningRequests.
type Signing struct {
	// Authorities maps the signers of kubernetes.io, by name, to their authorities; a signer without an authority signs nothing.
	Authorities map[string]Authority
	// Duration is the longest validity of a certificate.
	Duration time.Duration
}

// Authority names the PEM files of a certificate and its key. They are read again when they change.
type Authority struct{ Certificate, Key string }

const (
	requestsResource    = "certificatesigningrequests.certificates.k8s.io"
	podRequestsResource = "podcertificaterequests.certificates.k8s.io"

	// certificateAccount is the service account of the controllers of CertificateSigningRequests.
	certificateAccount = "certificate-controller"
	// certificateWorkers is kube-controller-manager's number.
	certificateWorkers = 5

	// podRequestsFor is the age at which PodCertificateRequests are removed, podRequestsEvery the interval of the check. Both
	// values are kube-controller-manager's.
	podRequestsFor   = 15 * time.Minute
	podRequestsEvery = 5 * time.Minute
)

// has tells whether a stored CertificateSigningRequest has one of the conditions.
func has(o *resources.Object, conditions ...certificatesv1.RequestConditionType) bool {
	has := false
	gjson.GetBytes(o.Data, "status.conditions").ForEach(func(_, c gjson.Result) bool {
		has = slices.Contains(conditions, certificatesv1.RequestConditionType(c.Get("type").Str))
		return !has
	})
	return has
}

func anyObject(*resources.Object) bool { return true }

// newApproving returns the controller that approves the requests of kubelets for client certificates.
func newApproving(c Config) controller {
	o := hosted.Options{Name: RequestApproving, Follows: []hosted.Followed{{Resource: requestsResource, Needs: func(o *resources.Object) bool {
		return gjson.GetBytes(o.Data, "spec.signerName").Str == certificatesv1.KubeAPIServerClientKubeletSignerName &&
			!has(o, certificatesv1.CertificateApproved, certificatesv1.CertificateDenied)
	}}}}
	return newHost(c, o, certificateAccount, func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		approver.NewCSRApprovingController(ctx, client, informersv1.New(informers, "", nil).CertificateSigningRequests()).Run(ctx, certificateWorkers)
		return nil
	})
}

// newSigning returns the controller that signs approved requests.
func newSigning(c Config) controller {
	if c.Signing == nil || len(c.Signing.Authorities) == 0 {
		return nil
	}
	o := hosted.Options{Name: RequestSigning, Follows: []hosted.Followed{{Resource: requestsResource, Needs: func(o *resources.Object) bool {
		_, ours := c.Signing.Authorities[gjson.GetBytes(o.Data, "spec.signerName").Str]
		return ours && gjson.GetBytes(o.Data, "status.certificate").Str == "" &&
			has(o, certificatesv1.CertificateApproved) && !has(o, certificatesv1.CertificateFailed)
	}}}}
	return newHost(c, o, certificateAccount, func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		requests := informersv1.New(informers, "", nil).CertificateSigningRequests()
		var all []*signer.CSRSigningController
		for name, a := range c.Signing.Authorities {
			one, err := signer.NewCSRSigningController(ctx, "csrsigning", name, client, requests, a.Certificate, a.Key, c.Signing.Duration)
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		var work errgroup.Group
		for _, one := range all {
			work.Go(func() error {
				one.Run(ctx, certificateWorkers)
				return nil
			})
		}
		return work.Wait() // nil
	})
}

// newRequestCleaner returns the controller that removes old CertificateSigningRequests.
func newRequestCleaner(c Config) controller {
	o := hosted.Options{Name: RequestCleaner, Follows: []hosted.Followed{{Resource: requestsResource, Needs: anyObject}}}
	return newHost(c, o, certificateAccount, func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		cleaner.NewCSRCleanerController(client.CertificatesV1().CertificateSigningRequests(), informersv1.New(informers, "", nil).CertificateSigningRequests()).Run(ctx, 1)
		return nil
	})
}

// newPodRequestCleaner returns the controller that removes old PodCertificateRequests.
func newPodRequestCleaner(c Config) controller {
	o := hosted.Options{Name: PodRequestCleaner, Follows: []hosted.Followed{{Resource: podRequestsResource, Needs: anyObject}}}
	return newHost(c, o, "podcertificaterequestcleaner", func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		cleaner.NewPCRCleanerController(client, informersv1.New(informers, "", nil).PodCertificateRequests(), clock.RealClock{}, podRequestsFor, podRequestsEvery).Run(ctx, 1)
		return nil
	})
}
