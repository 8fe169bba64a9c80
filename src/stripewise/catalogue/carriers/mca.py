"""Parameters of Open MPI's components."""

from __future__ import annotations

from collections.abc import Sequence

from stripewise.catalogue.carriers.base import Expressed, Form, Setting
from stripewise.catalogue.carriers.environment import Environment


class Mca(Environment):
    """Variables ``OMPI_MCA_NAME``, for the whole process."""

    name = verb = "mca"
    undecided = "Open MPI reads its parameters in `MPI_Init`"
    needs_mpi = True
    prefix = "OMPI_MCA_"
    by = "OMPI_MCA"
    wins = "the plan wins over --mca on the command line and the user's environment"
    proofs = frozenset({"calls", "layout"})

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Write them as parameters, or as the variables that hold them."""
        if form is Form.MCA:
            return Expressed([(s.key, s.value) for s in settings])
        if form is Form.VARIABLES and mpi not in ("", "openmpi"):
            return Expressed(cannot=[s.but("is a parameter of Open MPI") for s in settings])
        return super().express(form, settings, mpi=mpi, place=place)


MCA = Mca()
