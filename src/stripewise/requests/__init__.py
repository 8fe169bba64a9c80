"""What users may write: experiments, campaigns, the policy of a site; read and checked."""
