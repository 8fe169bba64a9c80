! planes FILE STEPS PIECES BYTES: ranks write interleaved pieces collectively, step after step, in Fortran
program planes
  use mpi
  implicit none
  character(len=512) :: name, word
  integer(kind=1), allocatable :: data(:)
  integer :: ierr, rank, ranks, file, stripes, step, steps, pieces, bytes
  integer(kind=MPI_OFFSET_KIND) :: place

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, name)
  call get_command_argument(2, word)
  read (word, *) steps
  call get_command_argument(3, word)
  read (word, *) pieces
  call get_command_argument(4, word)
  read (word, *) bytes
  allocate (data(pieces*bytes))
  data = int(mod(rank, 100), kind=1)
  call MPI_Type_vector(pieces, bytes, bytes*ranks, MPI_BYTE, stripes, ierr)
  call MPI_Type_commit(stripes, ierr)
  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, ierr)
  if (ierr /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  do step = 0, steps - 1
    place = int(step, MPI_OFFSET_KIND)*pieces*bytes*ranks + int(rank, MPI_OFFSET_KIND)*bytes
    call MPI_File_set_view(file, place, MPI_BYTE, stripes, 'native', MPI_INFO_NULL, ierr)
    call MPI_File_write_all(file, data, pieces*bytes, MPI_BYTE, MPI_STATUS_IGNORE, ierr)
    if (ierr /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end do
  call MPI_File_close(file, ierr)
  call MPI_Type_free(stripes, ierr)
  call MPI_Finalize(ierr)
end program planes
