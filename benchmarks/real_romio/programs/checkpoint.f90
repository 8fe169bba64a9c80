! A checkpoint as a user would write it: each rank owns every n-th kilobyte of one shared file.
program checkpoint
  use mpi
  implicit none
  integer, parameter :: piece = 1024, steps = 4
  integer :: ierr, rank, ranks, mebibytes, pieces, column, file, step
  integer(kind=MPI_OFFSET_KIND) :: start
  character(len=256) :: path, word
  character, allocatable :: state(:)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  path = 'checkpoint.dat'
  mebibytes = 32
  if (command_argument_count() > 0) call get_command_argument(1, path)
  if (command_argument_count() > 1) then
     call get_command_argument(2, word)
     read (word, *) mebibytes
  end if
  pieces = mebibytes * 1024 / ranks / steps

  call MPI_Type_vector(pieces, piece, piece * ranks, MPI_BYTE, column, ierr)
  call MPI_Type_commit(column, ierr)
  allocate (state(pieces * piece))
  state = achar(iachar('a') + rank)

  call MPI_File_open(MPI_COMM_WORLD, trim(path), MPI_MODE_CREATE + MPI_MODE_WRONLY, MPI_INFO_NULL, file, ierr)
  if (ierr /= MPI_SUCCESS) then
     write (0, *) 'cannot open ', trim(path)
     call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end if
  do step = 0, steps - 1
     start = (int(step, MPI_OFFSET_KIND) * pieces * ranks + rank) * piece
     call MPI_File_set_view(file, start, MPI_BYTE, column, 'native', MPI_INFO_NULL, ierr)
     call MPI_File_write_all(file, state, pieces * piece, MPI_BYTE, MPI_STATUS_IGNORE, ierr)
  end do
  call MPI_File_close(file, ierr)

  call MPI_Type_free(column, ierr)
  call MPI_Finalize(ierr)
end program checkpoint
