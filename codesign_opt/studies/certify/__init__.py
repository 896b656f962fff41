"""Branch and bound over machines: how near the best one found is to the best there is, proven."""

from codesign_opt.studies.certify.search import Certificate, CertifyProgress, certify

__all__ = ["Certificate", "CertifyProgress", "certify"]
